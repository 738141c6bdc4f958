"""Copies of frozen dataclasses, made a thousand times a minute. Pure."""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

_T = TypeVar("_T")


def changed(one: _T, /, **others: Any) -> _T:
    """What `dataclasses.replace` makes, in half of the time."""
    kind: Any = type(one)
    names, values = _read(kind)
    made: _T = kind(**(dict(zip(names, values(one), strict=True)) | others))
    return made


@cache
def _read(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of the fields of a dataclass, two at least, and what reads them."""
    names = tuple(field.name for field in fields(kind))
    return names, attrgetter(*names)
