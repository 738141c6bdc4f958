"""What is remembered of a driver whose pod is gone: a note in the Secret of its start."""

import base64
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from pydantic import TypeAdapter

from dagster_sparkscale import typed_json
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes.api import Api, Object
from dagster_sparkscale.clusters.kubernetes.manifests import text_of

_KEY = "ended.json"
_LONGEST = 50_000
_SHORT = 4_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Note:
    """How a driver has ended."""

    at: float
    """Seconds since the epoch."""
    reason: str
    log: str = ""
    """The end of its log: the pod's own goes with it."""
    took: bool = True
    """Whether its mark may be in its checkpoint."""


_NOTE = TypeAdapter(Note)


def leave(api: Api, name: str, note: Note) -> None:
    """Note how the driver of that name has ended. What can't be noted is told here only."""
    text = json.dumps(asdict(replace(note, log=note.log[-_LONGEST:])))
    data = {_KEY: base64.b64encode(text.encode()).decode()}
    try:
        api.patch("secrets", name, {"data": data})
    except ClusterError as error:
        _log.warning("how %s has ended can't be noted (%s): %s", name, note.reason, error)


def shortened(data: Mapping[str, str]) -> dict[str, str]:
    """The note among the values of a Secret, with less of the log, for who keeps thousands."""
    if (note := read({"data": data})) is None:
        return {}
    text = json.dumps(asdict(replace(note, log=note.log[-_SHORT:])))
    return {_KEY: base64.b64encode(text.encode()).decode()}


def read(secret: Object | None) -> Note | None:
    """The note in the Secret of a start; None: there is none that can be read."""
    text = None if secret is None else text_of(secret, _KEY)
    try:
        return None if text is None else typed_json.read(_NOTE, text)
    except typed_json.Malformed:
        return None
