"""Whether a stream does better or worse than before its limits were changed. Pure.

Each of these is compared, where it was measured before and after:

    over        share of the minutes with R of at least 1, or with an overdue batch
    down        share of the minutes in which no driver ran that should
    lag         seconds behind the source in all but the worst twentieth of the minutes
    throttled   share of the minutes in which its input stood at its limit: what is refused is no
                improvement of the others
    failed      batches that failed, of all
    processed   records per second of processing time

One that is worse is enough, and under a lower load it is all the worse. Under a higher one only
failed batches are: the others follow from the load. Better is believed only under a load that is
comparable. What was measured before and is not any more is no improvement.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dagster_sparkscale.backpressure.throughput import quantile
from dagster_sparkscale.observe.minutes import Minute

COMPARABLE = 1.5
"""Factor between two loads up to which they can be compared."""
_MORE = 1.1
"""Factor from which on a load is a higher one: more minutes over or at a limit follow from it."""
SETTLING = 300.0
"""Seconds after a start that are not looked at: what came in while nothing ran is caught up with.
A driver that fails and is started anew makes several of these."""
_OVER = 0.05
_LAG = 1.5
_PROCESSED = 0.8
_LEAST_FAILED = 3


@dataclass(frozen=True)
class Verdict:
    outcome: Literal["better", "same", "worse", "unknown"]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.outcome}: {'; '.join(self.reasons)}"


def measured(minutes: Sequence[Minute]) -> dict[str, float]:
    """How a stream did in these minutes; what was not measured is not in it.

    Args:
        minutes: in order of time, of the span that is meant.
    """
    should = [minute for minute in minutes if minute.state != "stopped"]
    began: dict[int | None, int] = {}
    for minute in should:
        began.setdefault(minute.epoch, minute.at)
    first = should[0].epoch if should else None
    running = [
        minute
        for minute in should
        if minute.state == "running"
        # The span may begin in the middle of a driver's life.
        and (minute.epoch == first or minute.at - began[minute.epoch] >= SETTLING)
    ]
    known = [minute for minute in running if minute.ratio is not None or minute.overdue is not None]
    found: dict[str, float | None] = {
        "minutes": float(len(known)),
        "down": _share(should, lambda minute: minute.state == "failed"),
        "over": _share(known, lambda each: (each.ratio or 0) >= 1 or each.overdue is not None),
        "throttled": _share(known, lambda minute: minute.throttled is not None),
        "lag": _lag(running),
        "input": _mean(minute.input_rate for minute in running),
        "processed": _mean(minute.processed_rate for minute in running),
        "failed": _failed(running),
    }
    return {name: value for name, value in found.items() if value is not None}


def _share(minutes: Sequence[Minute], so: Callable[[Minute], bool]) -> float | None:
    """The share of these minutes in which it is so; None: there are none."""
    return sum(map(so, minutes)) / len(minutes) if minutes else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _lag(running: Sequence[Minute]) -> float | None:
    lags = sorted(minute.lag for minute in running if minute.lag is not None)
    return float(quantile(lags, 0.95)) if lags else None


def _failed(running: Sequence[Minute]) -> float | None:
    batches = [
        (minute.completed + minute.failed, minute.failed)
        for minute in running
        if minute.completed is not None and minute.failed is not None
    ]
    if not (every := sum(count for count, _ in batches)):
        return None
    failed = sum(failed for _, failed in batches)
    return failed / every if failed >= _LEAST_FAILED else 0.0


def verdict(
    before: Mapping[str, float], after: Mapping[str, float], *, least: int, interval: float
) -> Verdict:
    """Whether the stream does better.

    Args:
        before: the numbers of `measured` from before the change.
        after: the numbers of `measured` since the change.
        least: minutes that `after` must be of at least.
        interval: the batch interval, in seconds.
    """
    fell, falls = before.get("down", 0.0), after.get("down", 0.0)
    if falls > fell + _OVER:
        share = f"in {falls:.0%} of the minutes no driver ran that should"
        return Verdict("worse", (f"{share}, and {fell:.0%} before",))
    for minutes_of, of in ((after, "since"), (before, "before it")):
        minutes = minutes_of.get("minutes", 0.0)
        if minutes < least:
            few = f"only {minutes:.0f} minutes were measured {of}, {least} are needed"
            return Verdict("unknown", (few,))
    was, now = before.get("input"), after.get("input")
    more = was is not None and now is not None and now > _MORE * was
    worse, better, missing = _compared(before, after, interval)
    if more and set(worse) - _OF_NO_LOAD:
        worse = {name: text for name, text in worse.items() if name in _OF_NO_LOAD}
        missing = (*missing, f"not comparable: {_rate(now)} came in, and {_rate(was)} before")
    loads = f"{_rate(now)} came in, and {_rate(was)} before"
    if not was or (now is not None and now > COMPARABLE * was):
        return Verdict("unknown", (f"not comparable: {loads}",))
    if worse:
        return Verdict("worse", (*worse.values(), loads))
    if now is None or now * COMPARABLE < was:
        return Verdict("unknown", (f"not comparable: {loads}",))
    slower = _slower(before, after) if now >= _PROCESSED * was else None
    if slower is not None and not better:
        return Verdict("worse", (slower, loads))
    if missing:
        return Verdict("unknown", missing)
    if better:
        return Verdict("better", (*better, loads))
    return Verdict("same", (f"nothing differs that was measured; {loads}",))


def _compared(
    before: Mapping[str, float], after: Mapping[str, float], interval: float
) -> tuple[dict[str, str], list[str], tuple[str, ...]]:
    """What is worse, by name, what is better, and what was measured before and is not any more."""
    worse: dict[str, str] = {}
    better: list[str] = []
    missing: list[str] = []
    for name, words in _WORDS.items():
        if name not in before:
            continue
        if name not in after:
            missing.append(f"{words} was measured before, and is not any more")
            continue
        was, now = before[name], after[name]
        if name == "lag":
            text = f"{words}: {now:.0f} s instead of {was:.0f} s"
            more, less = _longer(was, now, interval), _longer(now, was, interval)
        else:
            text = f"{words}: {now:.0%} instead of {was:.0%}"
            more, less = now - was > _OVER, was - now > _OVER
        if more:
            worse[name] = text
        if less:
            better.append(text)
    return worse, better, tuple(missing)


def _longer(was: float, now: float, interval: float) -> bool:
    return now > _LAG * was and now - was > interval


_WORDS = {
    "over": "minutes in which batches took longer than they have",
    "lag": "lag, but in the worst twentieth of the minutes",
    "throttled": "minutes in which its input stood at its limit",
    "failed": "batches that failed",
}
_OF_NO_LOAD = {"failed"}
"""What a higher load is no excuse for."""


def _slower(before: Mapping[str, float], after: Mapping[str, float]) -> str | None:
    """Say that records are processed more slowly; None: they are not.

    Smaller batches are slower by themselves: so it counts only under as much load, and where they
    have brought nothing else.
    """
    was, now = before.get("processed"), after.get("processed")
    if was is None or now is None or now >= _PROCESSED * was:
        return None
    return f"processed while busy: {_rate(now)} instead of {_rate(was)}"


def _rate(value: float | None) -> str:
    return "an unknown number of records/s" if value is None else f"{value:,.0f} records/s"
