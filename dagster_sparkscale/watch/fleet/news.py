"""The problems of a fleet, as its event carries them to the alerts. Pure."""

from collections.abc import Mapping

from pydantic import FiniteFloat
from pydantic.dataclasses import dataclass

from dagster_sparkscale.watch.fleet.rows import ORPHAN
from dagster_sparkscale.watch.fleet.verdict import AT_MAXIMUM, GIVEN_UP, LOST_DATA, SLOW

_IS: Mapping[str, str] = {
    "failed": "has failed",
    "given_up": f"has failed, is {GIVEN_UP} and not restarted any more",
    "losing_data": f"has {LOST_DATA}",
    "unhealthy": "is not well",
    "lagging": f"is {SLOW}, too far behind",
    "orphaned": f"is an {ORPHAN}: it runs, and nobody declares it",
    "pinned": f"is {AT_MAXIMUM} of executors",
    "left_out": "has more problems than are told one by one",
    "unwatched": "is not watched",
}
_WAS: Mapping[str, str] = {
    "failed": "had failed",
    "given_up": f"had failed, was {GIVEN_UP} and not restarted any more",
    "losing_data": f"had {LOST_DATA}",
    "unhealthy": "was not well",
    "lagging": f"was {SLOW}, too far behind",
    "orphaned": f"was an {ORPHAN}: it ran, and nobody declared it",
    "pinned": f"was {AT_MAXIMUM} of executors",
    "left_out": "had more problems than are told one by one",
    "unwatched": "was not watched",
}


def what_is(problem: str, health: str = "") -> str:
    """What a problem is, in the words of the stream's verdict.

    Args:
        health: the verdict while it stands, of `unhealthy`; empty: not known.
    """
    return f"is {health}" if problem == "unhealthy" and health else _IS.get(problem, problem)


def what_was(problem: str, health: str = "") -> str:
    """What a problem was that is over."""
    return f"was {health}" if problem == "unhealthy" and health else _WAS.get(problem, problem)


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
    health: str = ""
    """The stream's verdict while the problem stands; empty: of an older release, or of no
    stream."""


@dataclass(frozen=True)
class News:
    """The fleet's latest observation."""

    of: str
    """Code location and cluster."""
    at: FiniteFloat
    problems: tuple[Occurrence, ...] = ()
    left_out: int = 0
    """Problems that there were no place for."""
    again: bool = False
    """Whether it was told before: the event only carries minutes. It may be stored after one that
    is newer."""
