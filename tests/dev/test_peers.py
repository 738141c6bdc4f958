"""The peers' rules against numbers that were worked out by hand from what was published."""

import pytest

from benchmarks.policies.loads import BOUNDS, Case, step
from benchmarks.policies.peers.base import Recent, lag
from benchmarks.policies.peers.kubernetes import Behaviour, Keda, OnRatio, Varga, proportional
from benchmarks.policies.peers.others import Dhalion, Numaflow
from benchmarks.policies.peers.rates import Ds2, Flink
from benchmarks.policies.peers.spark import DynamicAllocation, ExecutorAllocationManager
from benchmarks.policies.peers.static import keeping_up, static_mean, static_peak
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.observe.evaluation import Evaluation

CASE = Case("step", "tune", step("a load", (2, 1), (10, 1)))


def seen(executors=10, at=60.0, **fields):
    """What a stream of DStreams with batches of 10 s did, but for what a test is about."""
    plain = {
        "ratio": 0.5,
        "processing_ms": 5000.0,
        "completed": 6,
        "gathered_rate": 1000.0,
        "input_rate": 1000.0,
        "processed_rate": 2000.0,
        "pending_batches": 1,
        "backlog_records": 0,
        "batch_interval": 10.0,
        "registered": executors,
        "requested": executors,
    }
    return Evaluation(window=60.0, uptime=at, **(plain | fields))


def after(decider, evaluation):
    """The executors that are asked for once a decider has decided."""
    decision = decider.decide(BOUNDS, evaluation)
    return evaluation.requested if isinstance(decision, Hold) else decision.target


# Static


def test_the_mean_and_the_peak_are_those_of_the_load():
    # (10 - 0.8) s / 10 s / (3.2 ms * waves / 64): 11 waves of 6 places, so 3 executors do 1672.7 a
    # second; 3 waves of 22 places, 11 executors 6133.3. The mean is 3000/s, the peak 5000/s: 7
    # waves of 10 places are 2628.6, and 6 of 12 are 3066.7; 4 of 16 are 4600, 4 of 18 too, and
    # 4 of 20; 3 of 22 are 6133.3.
    assert keeping_up(CASE, 1672) == 3
    assert after(static_mean(CASE, 1.0), seen()) == 6
    assert after(static_peak(CASE, 1.0), seen()) == 11
    assert after(static_peak(CASE, 0.5), seen()) == 5


# Spark


@pytest.mark.parametrize(
    ("ratio", "executors", "expected"),
    # The design's cases, of a batch interval of 60 s: 2 and 10 s down, 20 to 45 s hold, 60 and
    # 80 s up; and demand for ten times as much.
    [
        *[(2 / 60, 5, 4), (10 / 60, 5, 4), (20 / 60, 5, 5), (45 / 60, 5, 5)],
        *[(60 / 60, 5, 6), (80 / 60, 5, 6), (0.9, 5, 6), (0.3, 5, 4), (1.5, 5, 7)],
        *[(10.0, 2, 12), (0.1, 1, 1), (3.0, 39, 40)],
    ],
)
def test_sparks_manager_adds_r_and_removes_one(ratio, executors, expected):
    evaluation = seen(executors, ratio=ratio)
    assert after(ExecutorAllocationManager(0.9, 0.3), evaluation) == expected


def test_sparks_manager_needs_a_batch():
    assert after(ExecutorAllocationManager(0.9, 0.3), seen(ratio=None)) == 10


def test_dynamic_allocation_doubles_what_it_adds_for_each_second_of_backlog():
    # 64 tasks on 20 places: 4 waves, so tasks of a batch of 4 s wait for 3 s: 1 + 2 + 4 more. Of
    # 32 at most, which have a place for each task.
    of = DynamicAllocation(CASE, backlog_timeout=1.0)
    assert after(of, seen(10, processing_ms=4000.0, completed=1)) == 17
    assert after(of, seen(10, processing_ms=4000.0, completed=6)) == 32
    assert after(of, seen(10, processing_ms=1200.0, completed=6)) == 10


def test_dynamic_allocation_lets_go_only_of_those_without_a_task():
    of = DynamicAllocation(CASE, backlog_timeout=1.0)
    assert after(of, seen(40, processing_ms=900.0)) == 32
    assert after(of, seen(32, processing_ms=900.0, ratio=0.09)) == 32


# Kubernetes


def test_hpa_is_proportional_outside_of_its_tolerance():
    assert proportional(10, 1.09, 0.1) == 10
    assert proportional(10, 1.11, 0.1) == 12
    assert proportional(10, 0.5, 0.1) == 5


def test_hpa_goes_up_at_once_by_four_or_to_twice_as_many():
    # R 2.1 at a target of 0.7: three times as many.
    assert after(OnRatio(0.7), seen(2, ratio=2.1)) == 6
    assert after(OnRatio(0.7), seen(3, ratio=2.1)) == 7
    assert after(OnRatio(0.7), seen(10, ratio=2.1)) == 20


def test_hpa_goes_down_to_the_most_of_the_last_300_s():
    of = OnRatio(0.7)
    assert after(of, seen(10, at=15.0, ratio=0.7)) == 10
    assert after(of, seen(10, at=30.0, ratio=0.28)) == 10
    assert after(of, seen(10, at=314.0, ratio=0.35)) == 10
    # Of 4 and 5, the one of 10 is too old.
    assert after(of, seen(10, at=316.0, ratio=0.28)) == 5


def test_what_hpa_recommended_counts_while_it_went_up():
    of = Behaviour(300.0)
    assert of.of(0.0, 2, 30) == 6
    assert of.of(15.0, 6, 5) == 6


def test_lag_is_what_a_broker_would_count():
    # The batch that gathers, half full, and the one at work for half of the time; 3000 wait.
    assert lag(seen()) == 10_000
    assert lag(seen(backlog_records=3000)) == 13_000
    # Structured Streaming at R 2: batches of 20 s; one at work, and half of the next one.
    assert lag(seen(pending_batches=None, ratio=2.0)) == 30_000


def test_keda_divides_lag_by_its_threshold():
    assert after(Keda(1000.0), seen(10)) == 10
    assert after(Keda(800.0), seen(10)) == 13
    assert after(Keda(10.0), seen(10)) == 20
    # 950 for each of 10 is within the tolerance of 1000.
    assert after(Keda(1000.0), seen(10, gathered_rate=950.0)) == 10
    # Down after 300 s.
    of = Keda(2000.0)
    assert after(of, seen(10, at=15.0, gathered_rate=2000.0)) == 10
    assert after(of, seen(10, at=30.0)) == 10
    assert after(of, seen(10, at=330.0)) == 5


def test_varga_takes_the_larger_of_utilisation_and_the_change_of_lag():
    assert after(Varga(0.7), seen(10, ratio=0.84)) == 12
    # Utilisation is 1 at most: ceil(10 / 0.7).
    assert after(Varga(0.7), seen(10, ratio=3.0)) == 15
    # Lag of 15,000 and 45,000 in one minute: 500/s more than is done. Of 1000/s that come 500 are
    # done: 1 + 500 / 500 = 2 times as many.
    of = Varga(0.7)
    assert after(of, seen(10, at=60.0, ratio=1.0, backlog_records=0)) == 15
    of = Varga(0.7)
    after(of, seen(10, at=60.0, ratio=1.0, backlog_records=0))
    assert after(of, seen(10, at=120.0, ratio=1.0, backlog_records=30_000)) == 20


# By true rates


def test_ds2_is_there_in_one_step():
    # 2000/s of work on 10: 200 for each. 1000 come.
    assert after(Ds2(1.0), seen(10)) == 5
    assert after(Ds2(0.8), seen(10)) == 7
    assert after(Ds2(1.0), seen(10, gathered_rate=6001.0)) == 31


def rounds(flink, executors, begin, count, **fields):
    """What was asked for in rounds, a minute each."""
    return [after(flink, seen(executors, at=begin + 60 * n, **fields)) for n in range(count)]


def test_flink_scales_up_to_what_comes_and_what_is_to_be_caught_up():
    # 4000/s come, 3000/s are its true rate on 10. Lag 4000 * 10 * 1.5 = 60,000: 60,000 / 1800 +
    # 4000 * 300 / 1800 + 4000 / 0.7 = 33.3 + 666.7 + 5714.3 = 6414.3 = 2.138 times as many.
    of = Flink(CASE, 0.7, align=False)
    up = rounds(of, 10, 60, 6, gathered_rate=4000.0, processed_rate=3000.0, ratio=1.0)
    assert up == [10, 10, 10, 10, 10, 22]
    # It stabilises for 300 s, and what it brought is less than a tenth of 3600/s.
    up = rounds(of, 22, 420, 8, gathered_rate=4000.0, processed_rate=3300.0, ratio=1.0)
    assert up == [22] * 8


def test_flink_aligns_to_divisors_of_the_partitions():
    # 22 executors have 44 places: the next divisor of 64 is 64, of 32 executors.
    up = rounds(Flink(CASE, 0.7), 10, 60, 6, gathered_rate=4000.0, processed_rate=3000.0, ratio=1.0)
    assert up[-1] == 32


def test_flink_holds_within_its_utilisation():
    # Of a true rate of 2000, 1000 are used: between 1000 and what 0.4 needs, 2500 and more.
    assert rounds(Flink(CASE, 0.7), 10, 60, 30) == [10] * 30


def test_flink_waits_an_hour_with_fewer_and_takes_the_most_of_it():
    # 1000 come and 6000 could. Lag 1000 * 10 * 1 = 10,000: 5.6 + 166.7 + 1000 / 0.7 = 1600.8:
    # 0.2668 of 10 executors, but at least 0.4 of them. In between with 3000 come: 4802.4, 0.8004.
    of = Flink(CASE, 0.7, window=60.0, align=False)
    fewer = {"processed_rate": 6000.0}
    assert rounds(of, 10, 360, 30, **fewer) == [10] * 30
    # 16.7 + 500 + 3000 / 0.4 is more than 6000: within bounds it has to begin anew.
    assert after(of, seen(10, at=2160.0, gathered_rate=3000.0, **fewer)) == 10
    assert rounds(of, 10, 2220, 60, **fewer) == [10] * 60
    assert after(of, seen(10, at=5820.0, **fewer)) == 4


# Others


def test_dhalion_goes_by_the_share_of_back_pressure():
    # R 2 holds the input back for half of the time: 1 + 0.5 / 0.5.
    assert after(Dhalion(), seen(10, ratio=2.0)) == 20
    assert after(Dhalion(), seen(10, ratio=1.25)) == 13
    assert after(Dhalion(), seen(10, ratio=0.9)) == 8
    assert after(Dhalion(), seen(10, ratio=0.9, pending_batches=3)) == 10


def test_dhalion_does_not_repeat_what_led_to_back_pressure():
    of = Dhalion()
    assert after(of, seen(10, at=120.0, ratio=0.9)) == 8
    assert after(of, seen(8, at=240.0, ratio=1.25)) == 10
    assert after(of, seen(10, at=360.0, ratio=0.9)) == 10
    assert after(of, seen(10, at=3900.0, ratio=0.9)) == 8


def test_numaflow_moves_by_two_and_cools_down():
    # 10,000 wait and 1000 are done in a second: 10 s of 20, so half of the executors.
    of = Numaflow(20.0)
    assert after(of, seen(10, at=30.0)) == 8
    assert after(of, seen(8, at=90.0)) == 8
    assert after(of, seen(8, at=120.0)) == 6
    assert after(Numaflow(20.0), seen(10, backlog_records=50_000)) == 12
    assert after(Numaflow(20.0), seen(10, backlog_records=11_000)) == 11


# What they share


def test_numbers_count_for_so_many_seconds():
    recent = Recent(60.0)
    for at, value in ((0.0, 9.0), (30.0, 1.0), (60.0, 4.0)):
        recent.add(at, value)
    assert recent.values == [1.0, 4.0]
    assert (recent.mean, recent.slope) == (2.5, 0.1)
