"""How a figure comes of what was measured under several loads."""

import pytest

from benchmarks.backpressure import FLOORS, LOADS, Compared, figure, ratio
from benchmarks.backpressure_spark import COST, INTERVAL, _run, changes
from benchmarks.backpressure_spark import LOADS as ON_SPARK


def test_neither_is_taken_for_less_than_the_floor():
    assert ratio(3.0, 6.0, 2.0) == 0.5
    assert ratio(0.1, 6.0, 2.0) == pytest.approx(1 / 3)
    assert ratio(6.0, 0.0, 2.0) == 3.0
    assert ratio(1.9, 1.9, 2.0) is None


def test_a_figure_is_that_of_the_worst_load():
    floors = {"lost": 0.01, "converge": 2.0}
    compared = {
        "easy": Compared({n: {"work": 0.001, "pid": 0.002} for n in floors}, floors),
        "hard": Compared({n: {"work": 6.0, "pid": 4.0} for n in floors}, floors),
        "slow": Compared({n: {"work": 6.0, "pid": 24.0} for n in floors}, floors),
    }
    found = figure("lost", compared, {"there": compared["slow"]})
    assert (found.name, found.value, found.detail["worst"]) == ("backpressure_lost", 1.5, "hard")
    assert found.detail["simulated"]["easy"] == {"ours": 0.001, "pid": 0.002, "ratio": 1.0}
    assert found.detail["on_spark"] == {"there": {"ours": 6.0, "pid": 24.0, "ratio": 0.25}}
    del compared["hard"]
    assert figure("lost", compared, {}).value == 1.0
    converged = figure("converge", compared, {})
    assert (converged.value, converged.detail["worst"]) == (0.25, "slow")
    assert converged.detail["simulated"]["easy"]["ratio"] is None


def test_more_comes_than_fits_from_each_change_on():
    for load in LOADS.values():
        assert all(load.since <= at < load.until for at in load.changes)
        for at in load.changes:
            assert load.stream.arrivals(at + 1) > load.stream.fitting(at + 1)


def test_a_run_on_spark_is_read_from_what_its_batches_took():
    """Half a second of overhead; the third one has waited, and records cost twice as much."""
    began = 1_700_000_000.0

    def batch(at, waited, took, records):
        return [int((began + at) * 1000), int(1000 * waited), int(1000 * took), records]

    run = _run(
        [
            batch(4, 0, 1.5, 2000),
            batch(2, 0, 9.0, 200),
            batch(110, 1, 2.5, 2000),
            batch(114, 0, 0.7, 200),
        ],
        began,
    )
    assert [(b.planned, b.began, round(b.took, 3), b.records) for b in run.batches] == [
        (2.0, 2.0, 9.0, 200),
        (4.0, 4.0, 1.5, 2000),
        (110.0, 111.0, 2.5, 2000),
        (114.0, 114.0, 0.7, 200),
    ]
    assert run.stream.overhead == pytest.approx(0.5, abs=0.001)
    assert run.stream.cost(109) == COST and run.stream.cost(110) == 2 * COST
    assert run.stream.interval == INTERVAL


def test_the_loads_on_spark_follow_each_other():
    assert ON_SPARK["start"][1] == ON_SPARK["changing work"][0]
    assert changes("start") == (0.0,)
    assert changes("changing work") == (110.0, 155.0)


def test_every_measure_has_a_floor():
    assert FLOORS.keys() == {"converge", "overshoot", "lost", "over"}
