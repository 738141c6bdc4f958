"""How long batches take, by rows of records, executors and seconds."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dagster_sparkscale.backtest.fit import Row, best_fit
from tests.backtest.simulated import application


def rows(app, numbers, count=60, noise=0.0, known=False, seed=1) -> list[Row]:
    """Rows of this application, on each of these numbers of executors in turn."""
    draws = random.Random(seed)
    found = []
    for index in range(count):
        executors, records = numbers[index % len(numbers)], draws.uniform(2000, 40_000)
        seconds = app.seconds(records, executors) * draws.gauss(1, noise / 6**0.5)
        found.append(Row(records, seconds, executors, app.tasks if known else None, 6.0))
    return found


@given(
    overhead=st.sampled_from([0.0, 0.5, 3.0]),
    work=st.sampled_from([1e-4, 0.003]),
    tasks=st.integers(2, 100),
    waves=st.booleans(),
    serial=st.sampled_from([0.0, 0.1, 0.5]),
    pinned=st.sampled_from([0, 3]),
    numbers=st.lists(st.integers(2, 30), min_size=4, max_size=6, unique=True),
)
@settings(max_examples=80, deadline=None)
def test_what_is_known_without_noise_is_found(
    overhead, work, tasks, waves, serial, pinned, numbers
):
    app = application(
        overhead=overhead,
        work=work,
        partitions=tasks,
        waves=waves,
        serial=serial,
        pinned=pinned,
    )
    # Where all tasks run at once on any of them, nobody can tell how they share the work.
    assume(len({app.share(number) for number in numbers}) >= 3)
    drawn = rows(app, numbers, known=True)
    fit = best_fit(drawn, app.workload)
    for row in drawn:
        assert fit.seconds(row) == pytest.approx(row.seconds, rel=1e-4)
    assert fit.noise < 1e-4


def test_waves_are_found_without_being_told_how_many_tasks_there_are():
    app = application(partitions=40)
    fit = best_fit(rows(app, range(2, 21), count=300, noise=0.1), app.workload)
    assert (fit.waves, fit.alone) == (True, 0.0)
    assert fit.tasks == 40
    assert fit.shared == pytest.approx(0.0032, rel=0.05)
    assert fit.overhead == pytest.approx(0.8, rel=0.15)


def test_noise_is_that_of_one_batch():
    app = application()
    found = [
        best_fit(rows(app, [3, 4, 6, 9], count=400, noise=0.15, seed=seed), app.workload).noise
        for seed in range(5)
    ]
    assert sum(found) / 5 == pytest.approx(0.15, rel=0.1)


def test_a_fluid_stays_a_fluid_under_noise():
    app = application(waves=False, partitions=1000)
    for seed in range(8):
        drawn = rows(app, range(2, 21), count=200, noise=0.1, seed=seed)
        fit = best_fit(drawn, app.workload)
        assert fit.alone == 0.0
        other = [Row(20_000, 0, number, None, 6) for number in (1, 30)]
        for row in other:
            expected = app.seconds(row.records, row.executors)
            assert fit.seconds(row) == pytest.approx(expected, rel=0.06)


def test_a_part_that_no_executor_shortens_is_found_where_it_matters():
    app = application(waves=False, partitions=1000, serial=0.1)
    drawn = rows(app, [2, 5, 10, 20], count=400, noise=0.1)
    fit = best_fit(drawn, app.workload)
    assert fit.alone / (fit.alone + fit.shared) == pytest.approx(0.1, rel=0.15)


def test_of_two_numbers_of_executors_no_serial_part_is_told():
    app = application(waves=False, partitions=1000, serial=0.3)
    assert best_fit(rows(app, [2, 10]), app.workload).alone == 0


def test_nothing_is_below_zero():
    # Larger batches that are faster: what records cost is nothing, not less.
    workload = application().workload
    drawn = [Row(1000.0 * n, 20.0 - n, 4, None, 6.0) for n in range(1, 15)]
    fit = best_fit(drawn, workload)
    assert (fit.shared, fit.alone) == (0, 0)
    assert fit.overhead > 0


def test_errors_are_relative_to_the_fit_before():
    app = application()
    plain = best_fit(rows(app, [4, 8], count=400, noise=0.3), app.workload)
    again = best_fit(rows(app, [4, 8], count=400, noise=0.3), app.workload, before=plain)
    row = Row(20_000, 0, 4, None, 6)
    # What is low by chance no longer counts for more.
    expected = app.seconds(20_000, 4)
    assert abs(again.seconds(row) / expected - 1) < abs(plain.seconds(row) / expected - 1)


def test_a_deviation_is_in_standard_deviations():
    app = application()
    fit = best_fit(rows(app, [4, 8], count=400, noise=0.1), app.workload)
    odd = Row(20_000, fit.seconds(Row(20_000, 0, 4, None, 6)) * 1.2, 4, None, 6.0)
    assert fit.deviation(odd) == pytest.approx(0.2 * 6**0.5 / fit.noise, rel=1e-6)
