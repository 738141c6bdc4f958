"""All that happened to a stream in some hours, in order: of its minutes and of its runs. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.page.overview import AUTOSCALER, RECOVERY, Operated, came_to

WATCHED = "seen"
"""The origin of what nobody has asked for, such as a failure."""


@dataclass(frozen=True, slots=True)
class Happened:
    """One thing that happened."""

    at: float
    """Seconds since the epoch."""
    who: str
    what: str
    run_id: str = ""
    """The run that did it; empty: none, or it is not known."""
    failed: bool = False


def timeline(minutes: Sequence[Minute], operated: Iterable[Operated]) -> list[Happened]:
    """What happened, the oldest first: decisions other than to hold and what came of them, what
    people and schedules did, and what changed by itself."""
    runs = list(operated)
    # Without the stream, whose runs they all are: epoch and second.
    by_key = {each.run_key.partition(":")[2]: each for each in runs if each.run_key}
    found = [*_of_minutes(minutes, by_key)]
    found += [
        Happened(run.at, run.by, run.line, run.run_id, run.failed)
        for run in runs
        if not run.run_key
    ]
    return sorted(found, key=lambda each: each.at)


def _of_minutes(minutes: Sequence[Minute], runs: dict[str, Operated]) -> Iterator[Happened]:
    before: Minute | None = None
    for each in minutes:
        if before is not None:
            yield from _changes(before, each)
        if each.decision is not None:
            who = RECOVERY if each.decision.startswith("restart") else AUTOSCALER
            run = runs.get(f"{each.epoch}:{each.at}")
            of = ("", False) if run is None else (run.run_id, run.failed)
            yield Happened(each.at, who, came_to(each.decision, each.reason or "", run), *of)
        before = each


def _changes(before: Minute, now: Minute) -> Iterator[Happened]:
    if before.state != now.state:
        yield Happened(now.at, WATCHED, f"{before.state} -> {now.state}")
    if before.epoch != now.epoch and now.epoch is not None:
        came = "" if before.epoch is None else f", after driver {before.epoch}"
        yield Happened(now.at, WATCHED, f"driver {now.epoch}{came}")
    was, is_now = before.registered, now.registered
    if was is not None and is_now is not None and was != is_now:
        yield Happened(now.at, WATCHED, f"executors registered: {was} -> {is_now}")
