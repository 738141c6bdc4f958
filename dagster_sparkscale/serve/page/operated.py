"""What was done to a stream: its operations, and how long rescales took. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from dagster_sparkscale.names import BY_TAG, OUTCOME_TAG, READING_TAG
from dagster_sparkscale.watch.page.overview import AUTOSCALER, RECOVERY

RESCALE = "rescale"
IN_PROGRESS = "in progress"
ENDINGS = {"SUCCESS": "done", "FAILURE": "failed", "CANCELED": "canceled"}
"""How a run of Dagster's has ended, by its status; others are in progress."""
SENSOR_TAG, SCHEDULE_TAG, USER_TAG = "dagster/sensor_name", "dagster/schedule_name", "user"
"""Tags by which Dagster says who has asked for a run; a terminal says it by `BY_TAG`."""


@dataclass(frozen=True, slots=True)
class Operated:
    """One operation on a stream. None: not known, or not measured."""

    run: str
    """The id of its run."""
    operation: str
    at: float
    """When it began, seconds since the epoch."""
    ended: float | None = None
    ending: str = IN_PROGRESS
    by: str = ""
    """The person, sensor or schedule that has asked for it; empty: not known."""
    reason: str = ""
    before: int | None = None
    """Executors registered before a rescale."""
    asked: int | None = None
    """The target of a rescale."""
    reached: int | None = None
    """Executors registered after it."""
    seconds: float | None = None
    outcome: str = ""
    """What it came to, or why it was refused, short; empty: not known."""
    reading: bool = False
    """Whether it was to change nothing."""

    @property
    def by_a_person(self) -> bool:
        return self.by.startswith("a person")


def of_run(
    run: str,
    tags: Mapping[str, str],
    status: str,
    operation: str,
    created: float,
    began: float | None,
    ended: float | None,
    reason: str = "",
) -> Operated:
    """The operation of a run, as Dagster remembers it: without what it came to."""
    if sensor := tags.get(SENSOR_TAG):
        by = f"sensor {sensor}"
        if sensor.startswith(AUTOSCALER):
            by = RECOVERY if operation == "restart" else AUTOSCALER
    elif schedule := tags.get(SCHEDULE_TAG):
        by = f"schedule {schedule}"
    else:
        user = tags.get(BY_TAG) or tags.get(USER_TAG)
        by = f"a person, {user}" if user else "a person"
    ending = ENDINGS.get(status, IN_PROGRESS)
    seconds = ended - began if began is not None and ended is not None else None
    return Operated(
        *(run, operation, began or created, ended, ending, by, reason),
        seconds=seconds,
        outcome=tags.get(OUTCOME_TAG, ""),
        reading=tags.get(READING_TAG) == "true",
    )


def of_story(run: str, operation: str, ended: float, story: Mapping[str, Any]) -> Operated:
    """The operation of an event, by its report: without who has asked for it."""
    took = _number(story.get("seconds"))
    return Operated(
        *(run, operation, ended - (took or 0.0), ended),
        ending=str(story.get("ending") or "done"),
        reason=str(story.get("reason") or ""),
        before=_whole(story.get("executors_before")),
        asked=_whole(story.get("executors_target")),
        reached=_whole(story.get("executors_after")),
        seconds=took,
        reading=story.get("reading") is True,
    )


def together(run: Operated, event: Operated) -> Operated:
    """The operation of which both a run and its event tell."""
    failed = run.ending in ("failed", "canceled") and event.ending == "done"
    return replace(
        event,
        at=run.at,
        by=run.by,
        outcome=run.outcome,
        ending=run.ending if failed else event.ending,
        seconds=run.seconds if event.seconds is None else event.seconds,
        reading=run.reading,
    )


@dataclass(frozen=True, slots=True)
class Took:
    """How long rescales took that reached their target."""

    rescales: int
    """All that are over."""
    reached: int
    """Rescales that reached it, and of which it is known how long they took."""
    p50: float | None
    """Seconds within which half of these were there; None: there are none."""
    p95: float | None


def took(operations: Iterable[Operated]) -> Took:
    """How long the rescales among some operations took."""
    over = [each for each in operations if each.operation == RESCALE and each.ended is not None]
    seconds = sorted(
        each.seconds for each in over if each.ending == "reached" and each.seconds is not None
    )
    return Took(len(over), len(seconds), quantile(seconds, 0.5), quantile(seconds, 0.95))


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that so large a share of all is not above (nearest rank); None: there
    are no values."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


@dataclass
class Operations:
    """The operations of one stream, by the ids of their runs."""

    runs: dict[str, Operated] = field(default_factory=dict)
    """What Dagster remembers of the runs themselves."""
    events: dict[str, Operated] = field(default_factory=dict)
    """What the events of those say that are over and were not refused."""

    def newest_first(self, since: float) -> list[Operated]:
        """Operations that were to change something, and began at `since` or later (seconds since
        the epoch)."""
        found = {**self.events, **self.runs}
        for run in self.events.keys() & self.runs.keys():
            found[run] = together(self.runs[run], self.events[run])
        return sorted(
            (each for each in found.values() if each.at >= since and not each.reading),
            key=lambda each: -each.at,
        )

    def forget(self, before: float) -> None:
        """Forget those that began before then, seconds since the epoch."""
        for known in (self.runs, self.events):
            for run in [each.run for each in known.values() if each.at < before]:
                del known[run]


_LARGEST = 1e15
"""What is larger is no measurement, and might be too large for a float."""


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST:
        return float(value)
    return None
