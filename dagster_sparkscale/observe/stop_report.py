"""How a driver that was asked to stop has ended, as it has told in `stopped.json`. Pure."""

from pydantic import TypeAdapter

from dagster_sparkscale.driver.ending.stop_report import Stopped, StoppedQuery
from dagster_sparkscale.typed_json import read

__all__ = ["Stopped", "StoppedQuery", "drained", "read_stopped"]

_STOPPED = TypeAdapter(Stopped)


def read_stopped(text: bytes | str) -> Stopped:
    """Read what a driver has left. Unknown fields are passed over: it may be newer than this side.

    Raises:
        Malformed: the text is no JSON, or a field is missing or has another type; the error names
            it.
    """
    return read(_STOPPED, text)


def drained(stopped: Stopped) -> bool | None:
    """Whether nothing of a driver's queries was cut, and all processed that its receivers had
    received; None: of some it is not known, as of one that ended before it ran any: what the driver
    before it left to be done may be there still."""
    told = [query.drained for query in stopped.queries]
    if False in told:
        return False
    return True if told and None not in told else None
