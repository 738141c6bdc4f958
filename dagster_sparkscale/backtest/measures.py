"""The numbers by which what a policy came to is assessed: late records, cost, and steps. Pure.

SASO: settling, accuracy, short overshoot, by Hellerstein, Feedback Control of Computing Systems.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

from dagster_sparkscale.backtest.machine import Done
from dagster_sparkscale.backtest.simulate import Run

LATE = 3.0
"""Batch intervals from when the oldest record of a batch came until that batch was done, above
which it is late: the interval in which its records came, and two more. That is where Spark's total
delay, from when a batch is due until it is done, is above two intervals."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What came of one run."""

    late: float
    """Percent of the time whose records came too late: of the seconds in which late batches
    gathered theirs, and of those whose records were late without being done at the end."""
    longest_delay: float
    """Seconds from when a record came until its batch was done, or until the end, at most."""
    executor_hours: float
    """One executor that is registered for one hour, whatever its cores."""
    rescales: int
    """How often another number of executors was asked for."""
    scale_ups: int
    reversals: int
    """How often a change was of the other direction than the change before it."""
    most: int
    """The largest number of executors that were registered."""


def measures(run: Run) -> Measures:
    """What came of a run."""
    late = sum(batch.gathered for batch in run.batches if is_late(batch, run.application.interval))
    waited = run.seconds - run.undone_since
    late += max(0.0, waited - LATE * run.application.interval)
    steps = [each.target - each.requested for each in run.decisions]
    steps = [step for step in steps if step]
    return Measures(
        late=100 * late / run.seconds,
        longest_delay=max([waited, *(batch.delay for batch in run.batches)]),
        executor_hours=run.executor_seconds / 3600,
        rescales=len(steps),
        scale_ups=sum(step > 0 for step in steps),
        reversals=sum(one * other < 0 for one, other in pairwise(steps)),
        most=max(number for _, number in run.changes),
    )


def is_late(batch: Done, interval: float) -> bool:
    """Whether a batch of this batch interval was late."""
    # Spark counts in whole milliseconds.
    return batch.delay > LATE * interval + 1e-6


@dataclass(frozen=True, slots=True)
class Settling:
    """What came of a step of the load."""

    late_for: float
    """Seconds from the step to the end of the last late batch that began after it; 0: none was."""
    settled_after: float
    """Seconds from the step to the last change of the number of executors that was asked for."""
    scale_ups: int
    overshoot: float
    """Share by which the most executors asked for are above those asked for at the end; 0: none."""
    final: int
    """Executors asked for at the end."""


def settling(run: Run, step: float, end: float | None = None) -> Settling:
    """What came of a step of the load.

    Args:
        step: when it was, seconds from the beginning.
        end: until when it is looked at, which is later than the next decision; None: the end of the
            run.
    """
    end = run.seconds if end is None else end
    interval = run.application.interval
    late = [
        batch.ended
        for batch in run.batches
        if step <= batch.began and batch.ended <= end and is_late(batch, interval)
    ]
    after = [each for each in run.decisions if step <= each.at <= end]
    changes = [each for each in after if each.target != each.requested]
    final = after[-1].target
    most = max(each.target for each in after)
    return Settling(
        late_for=max(late, default=step) - step,
        settled_after=max((each.at for each in changes), default=step) - step,
        scale_ups=sum(each.target > each.requested for each in changes),
        overshoot=most / final - 1 if final else math.inf,
        final=final,
    )
