"""The task slots of real-time queries bound what a stream may be declared with."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.drift import declared, drift, executors_at_start
from dagster_sparkscale.declare.realtime import RealTime, executors_for
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.driver.settings import REALTIME_SLOTS, REALTIME_WAIT
from tests.declare.refusing import refusal
from tests.fakes import structured

SIX = RealTime(slots=6)


@pytest.mark.parametrize(
    ("cores", "conf", "least"),
    [(1, {}, 6), (2, {}, 3), (4, {}, 2), (8, {}, 1), (4, {"spark.task.cpus": "2"}, 3)],
)
def test_the_slots_are_the_minimum_of_executors(cores: int, conf: dict[str, str], least: int):
    stream = structured(realtime=SIX, executor_cores=cores, spark_conf=conf)
    bounds = stream.bounds
    assert (bounds.minimum, bounds.initial, bounds.least) == (least, least, least)
    assert bounds.within_reach(1) == least  # also by what a person sets
    assert "its real-time queries need 6 task slots at once" in (bounds.least_note or "")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"autoscale": RatioPolicy(max_executors=4)},
            "autoscale.max_executors = 4: must be at least 6, the fewest executors this stream can "
            "run with: its real-time queries need 6 task slots at once, and an executor has 1 "
            "(realtime.slots)",
        ),
        (
            {"autoscale": RatioPolicy(min_executors=2, max_executors=8)},
            "autoscale.min_executors = 2: must be at least 6, or not be given: its real-time "
            "queries need 6 task slots at once, and an executor has 1 (realtime.slots)",
        ),
        ({"executors": 3}, "executors = 3: must be at least 6, the fewest executors this stream"),
        (
            {"autoscale": RatioPolicy(initial_executors=5)},
            "autoscale.initial_executors = 5: must be at least 6, the fewest executors this",
        ),
        (
            {"spark_conf": {"spark.cores.max": "4"}},
            "spark_conf: spark.cores.max = 4: must be at least 6, for 6 executor(s) of 1 core(s)",
        ),
    ],
)
def test_what_can_not_hold_them_is_refused(fields: dict[str, Any], said: str):
    text = refusal(structured, realtime=SIX, **fields)
    assert said in text


def test_only_a_structured_stream_has_real_time_queries():
    text = refusal(DStream, name="clicks", program="a.py", batch_interval=1, realtime=SIX)
    assert "realtime" in text


def test_the_driver_is_told_and_a_change_shows_as_drift():
    stream = structured(realtime=RealTime(slots=6, wait="2 min"))
    assert stream.parts[-1].settings(stream) == {REALTIME_SLOTS: "6", REALTIME_WAIT: "120"}
    more = structured(realtime=RealTime(slots=8))
    assert "realtime.slots 6 -> 8" in drift(declared(stream), more)
    assert "realtime.slots none -> 6" in drift(declared(structured()), stream)
    assert "its own setting" not in refusal(
        structured, realtime=SIX, spark_conf={REALTIME_SLOTS: "3"}
    )


def test_a_new_driver_begins_with_as_many_as_spark_has_said():
    stream = structured(autoscale=RatioPolicy(max_executors=8))
    before = declared(stream)
    assert executors_at_start(stream, 1, before) == 1
    assert executors_at_start(stream, 1, before, slots=6) == 6
    assert executors_at_start(stream, 7, before, slots=6) == 7


@given(slots=st.integers(1, 10_000), each=st.integers(1, 64))
def test_executors_hold_the_slots_and_one_less_does_not(slots: int, each: int):
    executors = executors_for(slots, each)
    assert executors * each >= slots > (executors - 1) * each
