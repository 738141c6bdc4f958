"""One policy on one load: how late it was, what it cost, and how it moved."""

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.policies.loads import Case
from dagster_sparkscale.backtest.measures import is_late, measures, settling
from dagster_sparkscale.backtest.oracle import Oracle, oracle
from dagster_sparkscale.backtest.simulate import Decider, Run, simulate
from dagster_sparkscale.declare.policies import AutoscalePolicy

CALM = 120.0
"""Seconds without a late batch after which late ones are of something else. A step needs so long to
show, too: batches gather for an interval, and take up to one."""
SETTLED = 900.0
"""Seconds after a step in which it is looked at what came of it."""


@dataclass(frozen=True)
class Row:
    """What came of a policy on one load, in the mean of the seeds."""

    late: float
    """Percent of the time whose records came too late."""
    cost: float
    """Executor-hours / those of the oracle, which knew the load and is never late."""
    longest_delay: float
    """Seconds."""
    rescales: float
    """In an hour."""
    reversals: float
    """Changes of the other direction than the one before, in an hour."""
    scale_ups: float | None = None
    """After the step up from 2 to 16, in the first 15 minutes; None: the load has no such step."""
    late_minutes: float | None = None
    """Minutes from that step until the last late batch was done that it has led to: until two
    minutes without any. What is late after that is so by chance, as before the step."""
    last_late_minutes: float | None = None
    """The same until the last late batch of all that were done in these 15 minutes."""
    changes: float | None = None
    """Other numbers that were asked for in these 15 minutes."""
    settled_minutes: float | None = None
    """Minutes from that step to the last change of the number asked for in these 15 minutes."""
    overshoot: float | None = None
    """Share by which the most asked for are above what was asked for at the end of them."""

    def json(self) -> dict[str, Any]:
        """The numbers, to four digits; none of what was not measured."""
        return {
            name: float(f"{value:.4g}") for name, value in asdict(self).items() if value is not None
        }


def knowing(case: Case) -> Oracle:
    """The cheapest executors that knew a load."""
    return oracle(case.application, case.load, case.bounds)


def row(
    case: Case,
    oracle_hours: float,
    decider: Callable[[], AutoscalePolicy | Decider],
    interval: float | None = None,
) -> Row:
    """Run a policy on a load, once with each seed.

    Args:
        decider: makes a new one, which has seen nothing.
        interval: seconds between two decisions; None: a policy's own, else 60.
    """
    runs = [
        simulate(
            *(case.application, case.load, decider(), case.bounds),
            interval=interval,
            seed=seed,
        )
        for seed in case.seeds
    ]
    rows = [_row(case, oracle_hours, run) for run in runs]
    return Row(*(_mean([getattr(each, name) for each in rows]) for name in asdict(rows[0])))


def _row(case: Case, oracle_hours: float, run: Run) -> Row:
    found, hours = measures(run), run.seconds / 3600
    after: list[float] = []
    if case.step_at is not None:
        end = case.step_at + SETTLED
        step = settling(run, case.step_at, end)
        in_them = [each for each in run.decisions if case.step_at <= each.at <= end]
        after = [
            *(step.scale_ups, late_for(run, case.step_at) / 60, step.late_for / 60),
            sum(each.target != each.requested for each in in_them),
            *(step.settled_after / 60, step.overshoot),
        ]
    cost = found.executor_hours / oracle_hours
    return Row(
        *(found.late, cost, found.longest_delay),
        *(found.rescales / hours, found.reversals / hours),
        *after,
    )


def late_for(run: Run, step: float) -> float:
    """Seconds from a step until the last late batch was done that it has led to."""
    interval, end = run.application.interval, step
    for batch in run.batches:
        if batch.ended > step and is_late(batch, interval):
            if batch.began - end > CALM:
                break
            end = batch.ended
    return end - step


def _mean(values: list[float | None]) -> Any:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
