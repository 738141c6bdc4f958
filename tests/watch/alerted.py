"""Problems of a fleet as news, and the alerts that people have got."""

from pathlib import Path

from dagster_sparkscale.watch.alerts.alerts import (
    Alert,
    AlertMemory,
    Outcome,
)
from dagster_sparkscale.watch.fleet.news import News, Occurrence
from dagster_sparkscale.watch.fleet.problems import PROBLEMS

PAGE = Path(__file__).parents[2] / "docs" / "alerts.md"
NOW = 100_000.0
AT_ONCE: dict[str, float] = dict.fromkeys(PROBLEMS, 0.0)
TAKEN, UNANSWERED, REFUSED = Outcome


def one(stream="clicks", problem="failed", since=NOW, text="exit code 1") -> Occurrence:
    return Occurrence(stream, problem, since, text, f"/assets/{stream}")


def news(*problems, at=NOW, left_out=0) -> News:
    return News("web/x", at, problems, left_out)


def queued(memory) -> list[tuple[str, str, str]]:
    return named(memory.queue)


def named(alerts) -> list[tuple[str, str, str]]:
    return [(a.status, a.occurrence.stream, a.occurrence.problem) for a in alerts]


def taken(memory) -> list[Alert]:
    """All that waits, to an address that takes it."""
    alerts = list(memory.queue)
    while memory.queue:
        assert memory.settle(TAKEN)
    return alerts


class People:
    """What is sent to an address that takes all at once."""

    def __init__(self) -> None:
        self.memory, self.got = AlertMemory(), []

    def learn(self, *args, **options) -> None:
        self.memory.learn(*args, **options)
        self.got += taken(self.memory)
