"""Who asks for a change of a stream, in tests."""

from dataclasses import fields, replace
from typing import Any

from dagster_sparkscale.clusters.records.overtaking import Requester

_FIELDS = {each.name for each in fields(Requester)}


def requester_of(how: dict[str, Any], name: str = "the test") -> Requester:
    """Who asks, by those of these arguments that say so, which are taken out: the fields of a
    Requester, or `requester` itself."""
    asking = how.pop("requester", Requester(name))
    return replace(asking, **{each: how.pop(each) for each in _FIELDS & how.keys()})
