"""The problems of a fleet, as its event carries them to the alerts. Pure."""

from collections.abc import Mapping

from pydantic import FiniteFloat
from pydantic.dataclasses import dataclass

WORDS: Mapping[str, str] = {
    "failed": "has failed",
    "given_up": "has failed and is not restarted any more",
    "losing_data": "is losing data",
    "unhealthy": "is not well",
    "lagging": "is too far behind",
    "orphaned": "runs, and nobody declares it",
    "pinned": "is held at its maximum of executors",
    "left_out": "has more problems than are told one by one",
    "unwatched": "is not watched",
}


@dataclass(frozen=True)
class Occurrence:
    """A problem of a stream, as the fleet's observation has it."""

    stream: str
    problem: str
    since: FiniteFloat
    """Seconds since the epoch. Tells it from the same problem at another time."""
    text: str
    page: str
    """Path of the stream's page in Dagster's UI."""


@dataclass(frozen=True)
class News:
    """The fleet's latest observation."""

    of: str
    """Code location and cluster."""
    at: FiniteFloat
    problems: tuple[Occurrence, ...] = ()
    left_out: int = 0
    """Problems that there were no place for."""
