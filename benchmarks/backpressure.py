"""What estimators of rates do to a stream: ours, by how long batches take, beside Spark's PID.

Both with their defaults, on the same loads, in the mean of simulated runs
(`dev/load_simulation.py`). Each figure is ours / PID under the worst of the loads. The lower the
better:

- `backpressure_converge`: batch intervals until the limit fits the new load, and stays so;
- `backpressure_overshoot`: by how much the largest batch was too large for the interval;
- `backpressure_lost`: of the records that could have been processed, the share that was refused;
- `backpressure_over`: the share of batches that took longer than the interval.

A fifth one is of ours alone: `backpressure_jump`, the largest limit from the fourth batch on after
records have become 5 to 50 times as dear at once, or as cheap as before, as a multiple of what
fits; under the worst factor, share of overhead and kind of stream.

`dev/load_measures.py` says how each is counted. Where PID's value is next to nothing a ratio would
say nothing: neither side is taken for less than `FLOORS`, and of loads in which both are below it,
there is none for `backpressure_converge` and 1 for the others.

In `on_spark` of each figure's detail is a DStream on real Spark
(`benchmarks/backpressure_spark.py`), one run of each estimator: too few for a mean, enough to see
whether the simulation is right.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchmarks import backpressure_spark
from benchmarks.figures import Figure
from dagster_sparkscale.driver.backpressure.estimators import estimator_of
from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan
from dev.load_measures import converge, lost, over, overshoot, too_high
from dev.load_simulation import Run, Stream, always, ramp, simulate, steps

SEEDS = range(20)
FLOORS = {"converge": 2.0, "overshoot": 0.01, "lost": 0.01, "over": 0.01}
"""Two batches: the one that is being formed while another shows what has changed, and the next one,
of which part has come by then. A hundredth: of the interval, of the records, of the batches."""
GOALS = {"converge": 0.5, "overshoot": 1.0, "lost": 1.0, "over": 1.0}
COST = 1 / 5000
"""Seconds for a record."""
# Batches of a second, a fifth of which is overhead. They differ by a tenth, and one in fifty takes
# twice as long, as where a task is slow or memory is cleaned up. Receivers take at most 50,000/s.
STREAM = Stream(
    arrivals=always(0.0),
    cost=always(COST),
    overhead=0.2,
    noise=0.1,
    stragglers=0.02,
    cold=2.0,
    fastest=50_000.0,
)


ESTIMATORS = ("work", "pid")
Measured = dict[str, dict[str, float]]
"""Of each measure the values of both."""


class Compared(NamedTuple):
    """What came of a load."""

    measured: Measured
    floors: Mapping[str, float]


@dataclass(frozen=True)
class Load:
    """What a stream is put under."""

    stream: Stream
    changes: tuple[float, ...]
    """Seconds at which something changes after which more comes than fits."""
    since: float
    until: float
    """The time that is measured."""


# Some 4000 records a second fit. Time before `since` is a quiet one, in which nothing is refused.
LOADS = {
    "start": Load(replace(STREAM, arrivals=always(15_000.0)), (0.0,), 0.0, 600.0),
    "step": Load(replace(STREAM, arrivals=steps(2000.0, (60, 15_000.0))), (60.0,), 60.0, 360.0),
    "ramp": Load(
        replace(STREAM, arrivals=ramp(500.0, 12_500.0, 60.0, 260.0)), (120.0,), 60.0, 400.0
    ),
    "spike": Load(
        replace(STREAM, arrivals=steps(1000.0, (60, 30_000.0), (70, 1000.0))), (60.0,), 60.0, 140.0
    ),
    "changing work": Load(
        replace(
            STREAM,
            arrivals=always(8000.0),
            cost=steps(COST, (100, 2 * COST), (200, COST / 1.5), (300, 1.5 * COST)),
        ),
        (100.0, 200.0, 300.0),
        60.0,
        400.0,
    ),
}
JUMPS, OVERHEADS = (5, 8, 12, 20, 50), (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8)
"""How many times as dear a record becomes; shares of the interval."""
JUMP_NOISES = (0.0, 0.1)
JUMP_COST = 1 / 200_000
"""Seconds for a record: at such rates the lowest one, 100/s, plays no part."""
KINDS = {"DStreams": True, "Structured Streaming": False}
"""Whether batches queue."""


def measure() -> list[Figure]:
    compared = {
        f"{load}, {kind}": Compared(_simulated(LOADS[load], queues), FLOORS)
        for load in LOADS
        for kind, queues in KINDS.items()
    }
    runs = {estimator: backpressure_spark.run(estimator) for estimator in ESTIMATORS}
    there = {
        load: _on_spark(runs, Load(runs["work"].stream, backpressure_spark.changes(load), *times))
        for load, times in backpressure_spark.LOADS.items()
    }
    return [*(figure(name, compared, there) for name in GOALS), jump_figure()]


def jump_figure() -> Figure:
    """Of the jump after which the limit was furthest too high, in the mean of the seeds. Of
    DStreams, whose runs are long, these are the first five."""
    loads = {
        f"x{factor}, overhead {overhead:g}, noise {noise:g}, {kind}": [
            jumped(factor, overhead, noise, queues, seed)
            for seed in (SEEDS[: 5 if queues else None] if noise else SEEDS[:1])
        ]
        for factor in JUMPS
        for overhead in OVERHEADS
        for noise in JUMP_NOISES
        for kind, queues in KINDS.items()
    }
    means = {load: statistics.mean(found) for load, found in loads.items()}
    worst = max(means, key=lambda load: means[load])
    return Figure(
        name="backpressure_jump",
        value=means[worst],
        unit="ratio",
        goal=2.0,
        better="lower",
        detail={
            "worst": worst,
            "largest of a single run": max(max(found) for found in loads.values()),
            "without noise": max(means[load] for load in loads if ", noise 0," in load),
            "seeds": len(SEEDS),
            "loads": {load: round(mean, 3) for load, mean in means.items()},
        },
    )


def jumped(factor: float, overhead: float, noise: float, queues: bool, seed: int) -> float:
    """The largest limit / what fits after the cost of records has jumped, and after it has fallen
    again. DStreams have time to drain what waits in between."""
    up, down = 60.0, 60.0 + (50 * factor if queues else 100.0)
    stream = Stream(
        arrivals=always(1e9),
        cost=steps(JUMP_COST, (up, factor * JUMP_COST), (down, JUMP_COST)),
        overhead=overhead,
        noise=noise,
        queues=queues,
        fastest=5 / JUMP_COST,
    )
    run = simulate(stream, estimator_of(EstimatorPlan("work")), down + 100, seed)
    least = EstimatorPlan().min_rate
    return max(too_high(run, up, down, least), too_high(run, down, down + 100, least))


def _on_spark(runs: Mapping[str, Run], load: Load) -> Compared:
    measured = {
        name: {estimator: measure_of(runs[estimator], load) for estimator in ESTIMATORS}
        for name, measure_of in _MEASURES.items()
    }
    # There are fewer batches than a hundred: one of them is the least that can be seen.
    one = backpressure_spark.INTERVAL / (load.until - load.since)
    return Compared(measured, FLOORS | {"lost": one, "over": one})


def _simulated(load: Load, queues: bool) -> Measured:
    """In the mean of all seeds."""
    stream = replace(load.stream, queues=queues)
    runs = {
        estimator: [
            simulate(stream, estimator_of(EstimatorPlan(estimator)), load.until, n) for n in SEEDS
        ]
        for estimator in ESTIMATORS
    }
    return {
        name: {
            estimator: statistics.mean(measured(run, load) for run in runs[estimator])
            for estimator in ESTIMATORS
        }
        for name, measured in _MEASURES.items()
    }


def _converge(run: Run, load: Load) -> float:
    ends = [*load.changes[1:], load.until]
    return statistics.mean(
        converge(run, since, until) for since, until in zip(load.changes, ends, strict=True)
    )


_MEASURES: dict[str, Callable[[Run, Load], float]] = {
    "converge": _converge,
    "overshoot": lambda run, load: overshoot(run, load.since, load.until),
    "lost": lambda run, load: lost(run, load.since, load.until),
    "over": lambda run, load: over(run, load.since, load.until),
}


def ratio(ours: float, theirs: float, floor: float) -> float | None:
    """Neither is taken for less than the floor; None: both are below it."""
    if max(ours, theirs) < floor:
        return None
    return max(ours, floor) / max(theirs, floor)


def figure(name: str, compared: Mapping[str, Compared], on_spark: Mapping[str, Compared]) -> Figure:
    """Of the simulated load with the worst ratio; all are in `detail`, with those on Spark."""
    loads = {load: _row(name, each) for load, each in compared.items()}
    ratios = {load: row["ratio"] for load, row in loads.items() if row["ratio"] is not None}
    worst = max(ratios, key=lambda load: ratios[load])
    return Figure(
        name=f"backpressure_{name}",
        value=ratios[worst],
        unit="ratio",
        goal=GOALS[name],
        better="lower",
        detail={
            "worst": worst,
            "floor": FLOORS[name],
            "seeds": len(SEEDS),
            "simulated": loads,
            "on_spark": {load: _row(name, each) for load, each in on_spark.items()},
        },
    )


def _row(name: str, compared: Compared) -> dict[str, float | None]:
    ours, theirs = (compared.measured[name][estimator] for estimator in ESTIMATORS)
    found = ratio(ours, theirs, compared.floors[name])
    if found is None and name != "converge":
        found = 1.0
    return {
        "ours": round(ours, 4),
        "pid": round(theirs, 4),
        "ratio": None if found is None else round(found, 3),
    }
