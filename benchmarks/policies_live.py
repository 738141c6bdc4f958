"""Three policies on a real cluster under one load, and what the simulator makes of the same.

CapacityPolicy, Spark's own rule for streams and KEDA's on lag scale a real stream, one after the
other (`policies/live.py`). The application that is simulated is calibrated from the minutes of the
first of them, as a user's would be; where these are too few, from those of the next one as well.
"""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.policies import live
from benchmarks.policies.peers.kubernetes import Keda
from benchmarks.policies.peers.spark import ExecutorAllocationManager
from dagster_sparkscale import CapacityPolicy
from dagster_sparkscale.backtest.calibrate import Uncalibrated, calibrate
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.measures import measures
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.simulate import Decider, Run, simulate
from dagster_sparkscale.clusters.class_data import archives
from dagster_sparkscale.clusters.java import java_home, spark_home

OURS, EAM, KEDA = "capacity", "eam", "keda"
POLICIES: dict[str, Callable[[], Decider]] = {
    OURS: CapacityPolicy,
    EAM: lambda: ExecutorAllocationManager(0.9, 0.3),
    # Lag of a stream that keeps up is what gathers and what is at work: on one executor, busy for
    # 0.7 of the time, some 250 records.
    KEDA: lambda: Keda(250.0),
}
SEEDS = range(5)
_DAY = 86_400
LOW, HIGH, BURST = 60.0, 300.0, 360.0
"""Records in a real second. One executor is worth 150 to 170."""


def load() -> Load:
    """A step up, a load that comes and goes within the minute, a ramp down, and quiet."""
    on_and_off = ([BURST] * 3 + [LOW] * 5) * 9
    ramp = [HIGH - (HIGH - LOW) * second / 64 for second in range(64)]
    rates = [LOW] * 40 + [HIGH] * 72 + on_and_off + ramp + [LOW] * 40
    return Load("live", live.FASTER, tuple(rate / live.FASTER for rate in rates))


def measure() -> list[Figure]:
    # Made now: it would take the processors from the first stream.
    archives.make(java_home(), spark_home(), archives.user_folder())
    runs: dict[str, Run] = {}
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name:
        folder = Path(name)
        with live.cluster(folder) as cluster:
            for policy, make in POLICIES.items():
                runs[policy] = live.run(cluster, policy, make(), load(), folder)
                print(policy, _told(runs[policy]), flush=True)
    return figures(runs)


@dataclass(frozen=True)
class Calibrated:
    """An application by minutes that were measured."""

    application: Application
    runs: int
    """How many streams' minutes it took."""
    minutes: int
    error: float


def calibrated(runs: Sequence[Run]) -> Calibrated:
    """The application of streams that ran, by the minutes of the first, or of as many as it takes.

    Raises:
        RuntimeError: those of all are too few; says why.
    """
    workload, minutes, found = live.declared().workload, [], None
    for count, run in enumerate(runs, start=1):
        # One after the other, each by another driver; their fast clocks overlap.
        later = count * _DAY - run.minutes[0].at
        minutes += [replace(each, at=each.at + later, epoch=count) for each in run.minutes]
        found = calibrate(minutes, workload, window=live.INTERVAL, maximum=live.MOST)
        if not isinstance(found, Uncalibrated):
            # Minutes are too coarse for it; of a stream it is known by its rescale runs.
            delay = live.start_delay(runs[:count])
            application = found.application
            if delay is not None:
                application = replace(application, start_delay=delay)
            return Calibrated(application, count, found.minutes, found.error)
    raise RuntimeError(f"the runs can't be simulated: {found}")


def figures(runs: dict[str, Run]) -> list[Figure]:
    """What is told of what came of each policy."""
    by = calibrated(list(runs.values()))
    simulated = {
        name: [
            simulate(
                *(by.application, run.load, POLICIES[name](), live.BOUNDS),
                interval=live.INTERVAL,
                seed=seed,
            )
            for seed in SEEDS
        ]
        for name, run in runs.items()
    }
    cost = {name: run.executor_seconds for name, run in runs.items()}
    foreseen = {
        name: statistics.fmean(run.executor_seconds for run in each)
        for name, each in simulated.items()
    }
    errors = {name: abs(foreseen[name] - cost[name]) / cost[name] for name in runs}
    detail = {
        "live": {name: _told(run) for name, run in runs.items()},
        "simulated": {
            name: _mean([_told(run) for run in each]) for name, each in simulated.items()
        },
        "simulated_cost_to_eam": _ratios(foreseen),
        "application": {
            "from_runs": by.runs,
            "from_minutes": by.minutes,
            "error": round(by.error, 3),
            "overhead": round(by.application.overhead, 2),
            "work": round(by.application.work, 4),
            "tasks": by.application.tasks,
            "waves": by.application.waves,
            "serial": round(by.application.serial, 3),
            "noise": round(by.application.noise, 3),
            "start_delay": round(by.application.start_delay, 1),
        },
        "clock": f"{live.FASTER:g} s in one: times are those of minutes of 60 s",
    }
    late = measures(runs[OURS]).late
    return [
        Figure("policy_live_late", round(late, 2), "%", _late_goal(runs), "lower", detail),
        Figure(
            *("policy_live_cost", round(cost[OURS] / cost[EAM], 3), "ratio", 1.0, "lower"),
            {"live_cost_to_eam": _ratios(cost)},
        ),
        Figure(
            *("policy_live_error", round(max(errors.values()), 3), "ratio", 0.15, "lower"),
            {"errors": {name: round(error, 3) for name, error in errors.items()}},
        ),
    ]


def _late_goal(runs: dict[str, Run]) -> float:
    """No later than Spark's own rule."""
    return round(measures(runs[EAM]).late, 2)


def _told(run: Run) -> dict[str, Any]:
    found = measures(run)
    return {
        "late": round(found.late, 2),
        "longest_delay": round(found.longest_delay, 1),
        "executor_seconds": round(run.executor_seconds),
        "rescales": found.rescales,
        "most": found.most,
    }


def _mean(told: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {name: round(statistics.fmean(each[name] for each in told), 2) for name in told[0]}


def _ratios(cost: dict[str, float]) -> dict[str, float]:
    return {name: round(each / cost[EAM], 3) for name, each in cost.items()}
