"""An application by a stream's own minutes: how long its batches take, on how many executors.

Only minutes count whose executors are certain: as many as requested, and as many as in the minute
before. Pure.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from dagster_sparkscale.backtest.fit import Fit, Row, best_fit
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.reconstruct import GAP, Stretch, per_batch, stretches, thinned
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.observe.minutes import Minute

LEAST_MINUTES = 30
"""Minutes with certain executors, below which nothing is said."""
LEAST_SPREAD = 1.25
"""Times by which the work of a batch must vary, between its lowest and its highest tenth: else what
records cost can't be told from what a batch costs by itself."""
LEAST_WORK = 0.05
"""Share of the processing time that records must cost in a typical minute: noise is more, else."""
_OUTLIER = 4.0
"""Standard deviations beyond which a minute is left out."""
_START_DELAY = 30.0
"""Seconds, where no minute shows how long executors take."""
_TELLS = 0.1
"""Share by which batches must be faster on more executors, for a minute to tell when these came."""
_SAME = 0.02
"""Share by which a batch interval may differ from the declared one, as minutes are rounded."""
_STEADY = 1.05
"""Times the lowest limit that the highest one may be, where both count as one."""
_MOST_SERIAL, _MOST_NOISE = 0.99, 0.9


@dataclass(frozen=True, slots=True)
class Calibration:
    """An application, and by what it is known."""

    application: Application
    minutes: int
    """How many have gone into it."""
    error: float
    """Typical relative error of a minute's mean processing time."""
    stretches: tuple[Stretch, ...]
    """The known minutes, with what came in them."""
    assumed: tuple[str, ...]
    """What the minutes did not show, in words."""

    @property
    def doubtful(self) -> float:
        """Share of the known minutes whose load may have been another."""
        known = sum(len(each.minutes) for each in self.stretches)
        return sum(len(each.doubtful) for each in self.stretches) / known if known else 0.0


@dataclass(frozen=True, slots=True)
class Uncalibrated:
    """Why nothing can be said."""

    reason: str
    """Why, in words."""


def calibrate(
    minutes: Sequence[Minute],
    workload: Workload,
    *,
    window: float = 60.0,
    maximum: int | None = None,
) -> Calibration | Uncalibrated:
    """Find the application that has brought about these minutes.

    Args:
        minutes: of one stream, in order of time.
        window: seconds that each minute is about, at least: the interval of the policy.
        maximum: the most executors there could be; None: not known.
    """
    own = thinned(minutes, window)
    workload = replace(workload, batch_interval=_interval(own, workload.batch_interval))
    rows = [row for last, minute in pairwise(own) if (row := _row(last, minute, workload, window))]
    if len(rows) < LEAST_MINUTES:
        return Uncalibrated(
            f"{len(rows)} minutes have batches and executors that did not change: at least "
            f"{LEAST_MINUTES} are needed"
        )
    if (why_not := _too_even(rows, workload)) is not None:
        return Uncalibrated(why_not)
    fit = best_fit(rows, workload)
    rows = [row for row in rows if fit.deviation(row) <= _OUTLIER]
    fit = best_fit(rows, workload, before=fit)
    if median(1 - fit.overhead / fit.seconds(row) for row in rows) < LEAST_WORK:
        return Uncalibrated(
            "batches take hardly longer with more records: what these cost is not known"
        )
    application = _application(fit, workload, own)
    delay = _start_delay(own, application, GAP * window)
    if delay is not None:
        application = replace(application, start_delay=delay)
    return Calibration(
        application,
        minutes=len(rows),
        error=fit.error,
        stretches=tuple(stretches(minutes, workload, window=window, maximum=maximum)),
        assumed=tuple(_assumed(rows, delay)),
    )


def _row(last: Minute, minute: Minute, workload: Workload, window: float) -> Row | None:
    """What a minute says of its batches; None: its executors are not certain, or it has none."""
    numbers = {last.requested, last.registered, minute.requested, minute.registered}
    certain = (
        len(numbers) == 1 and last.epoch == minute.epoch and minute.at - last.at <= GAP * window
    )
    records = per_batch(minute)
    if not certain or not minute.completed or not records or not minute.processing_ms:
        return None
    if minute.registered is None or minute.registered * workload.slots <= workload.pinned:
        return None
    tasks = None
    if minute.shards is not None:
        tasks = max(1, math.ceil(round(minute.shards * workload.tasks_per_shard, 6)))
    return Row(
        records, minute.processing_ms / 1000, minute.registered, tasks, float(minute.completed)
    )


def _interval(minutes: Sequence[Minute], declared: float) -> float:
    """The batch interval that the program really has: R is what batches take over it."""
    found = [
        minute.processing_ms / 1000 / minute.ratio
        for minute in minutes
        if minute.processing_ms and minute.ratio
    ]
    if not found:
        return declared
    measured = median(found)
    return declared if abs(measured - declared) <= _SAME * declared else float(f"{measured:.2g}")


def _too_even(rows: Sequence[Row], workload: Workload) -> str | None:
    """Why overhead and cost can't be told apart, in words; None: they can."""
    work = sorted(row.records / (row.executors * workload.slots - workload.pinned) for row in rows)
    low, high = work[len(work) // 10], work[-1 - len(work) // 10]
    if high >= LEAST_SPREAD * low:
        return None
    return (
        f"batches had nearly the same work for each executor all the time: {high / low:.2f} times "
        f"as much in the busiest tenth of the minutes as in the quietest, and {LEAST_SPREAD:g} "
        "times are needed to tell what records cost from what a batch costs by itself"
    )


def _application(fit: Fit, workload: Workload, minutes: Sequence[Minute]) -> Application:
    shards = next((each.shards for each in reversed(minutes) if each.shards is not None), None)
    known = [each for each in minutes if each.completed is not None]
    return Application(
        workload,
        overhead=fit.overhead,
        work=fit.shared + fit.alone,
        shards=shards,
        partitions=fit.tasks,
        waves=fit.waves,
        serial=min(fit.alone / (fit.shared + fit.alone), _MOST_SERIAL),
        noise=min(fit.noise, _MOST_NOISE),
        start_delay=_START_DELAY,
        queues=any(each.pending is not None for each in known),
        max_records=_limit(known, workload.batch_interval),
        tells_lag=sum(each.lag is not None for each in known) * 2 > len(known),
    )


def _limit(minutes: Sequence[Minute], interval: float) -> int | None:
    """Records of a batch at most, where that was one number nearly all the time."""
    limits = sorted(each.limit for each in minutes if each.limit is not None)
    if 2 * len(limits) <= len(minutes) or limits[-1] > _STEADY * limits[0]:
        return None
    return max(1, round(median(limits) * interval))


def _start_delay(
    minutes: Sequence[Minute], application: Application, longest: float
) -> float | None:
    """Seconds from a decision until its executors work, by how long the batches of the minute took
    in which they came: those before took as long as without them. None: no minute tells."""
    found = []
    asked: Minute | None = None
    for last, minute in pairwise(minutes):
        if minute.at - last.at > longest or minute.epoch != last.epoch:
            asked = None
        elif last.requested == last.registered:
            asked = last
        before, after = last.registered, minute.registered
        if asked is None or before is None or after is None or minute.requested != after:
            continue
        if (last.pending or 0) > 1:
            continue  # slow batches of the minute before are among those of this one
        share = _before_share(minute, before, after, application) if before < after else None
        if share is not None:
            found.append(last.at - asked.at + share * (minute.at - last.at))
    return round(median(found), 1) if found else None


def _before_share(
    minute: Minute, before: int, after: int, application: Application
) -> float | None:
    """Share of a minute's batches that had the executors before; None: it does not tell."""
    records = per_batch(minute)
    if not records or not minute.processing_ms or application.places(before) == 0:
        return None
    slow = application.seconds(records, before)
    fast = application.seconds(records, after)
    if slow < (1 + _TELLS) * fast:
        return None
    return min(1.0, max(0.0, (minute.processing_ms / 1000 - fast) / (slow - fast)))


def _assumed(rows: Sequence[Row], delay: float | None) -> Iterator[str]:
    """What the minutes did not show, in words."""
    numbers = {row.executors for row in rows}
    if len(numbers) == 1:
        yield (
            f"executors were always {rows[0].executors}: that more or fewer would share the work "
            "evenly is assumed"
        )
    tasks = {row.tasks for row in rows if row.tasks is not None}
    if len(tasks) > 1:
        few, many = min(tasks), max(tasks)
        yield f"batches had {few} to {many} tasks: they are assumed to have as many as at the end"
    if delay is None:
        yield f"no minute shows how long executors take to start: {_START_DELAY:g} s is assumed"
