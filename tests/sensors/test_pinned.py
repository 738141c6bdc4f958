"""The deployment's own sensor: tells once, and only of streams held back for long enough."""

import time

import dagster as dg
import pytest

from dagster_sparkscale import RatioPolicy, StructuredStream
from sensors import pinned
from sensors.pinned import CHECK, Pinned, overdue, pinned_sensor


def stream(maximum=4):
    return StructuredStream(
        name="clicks",
        program="clicks.py",
        batch_interval=5,
        autoscale=RatioPolicy(max_executors=maximum),
    )


@pytest.fixture
def told(monkeypatch):
    told = []
    monkeypatch.setattr(pinned, "notify", lambda log, text: told.append(text))
    return told


def store(instance, passed, why="R 1.20 is at or above 0.9, but 4 executors are the maximum"):
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey("clicks"),
            check_name=CHECK,
            passed=passed,
            description=why,
        )
    )


def tick(instance, cursor=None, streams=None, after_minutes=0.0):
    sensor = pinned_sensor(streams or [stream()], after_minutes)
    with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
        return sensor.evaluate_tick(context)


def test_a_pinned_stream_is_told_of_once(told):
    with dg.DagsterInstance.ephemeral() as instance:
        store(instance, passed=False)
        first = tick(instance)
        second = tick(instance, first.cursor)
    assert told == [
        "clicks has been at its maximum for 0 min: "
        "R 1.20 is at or above 0.9, but 4 executors are the maximum"
    ]
    assert "clicks has been at its maximum" in second.skip_message
    assert not first.run_requests


def test_it_is_told_of_again_when_it_happens_again(told):
    with dg.DagsterInstance.ephemeral() as instance:
        store(instance, passed=False)
        cursor = tick(instance).cursor
        store(instance, passed=True)
        calm = tick(instance, cursor)
        time.sleep(0.01)
        store(instance, passed=False)
        tick(instance, calm.cursor)
    assert len(told) == 2
    assert calm.skip_message == "No stream is held at its maximum."


def test_a_stream_pinned_for_a_short_time_is_nobodys_business_yet(told):
    with dg.DagsterInstance.ephemeral() as instance:
        store(instance, passed=False)
        result = tick(instance, after_minutes=10)
    assert told == []
    assert "for 0 min" in result.skip_message


def test_a_stream_without_a_policy_or_without_a_check_yet_is_not_pinned(told):
    by_hand = StructuredStream(name="clicks", program="clicks.py", batch_interval=5)
    with dg.DagsterInstance.ephemeral() as instance:
        assert tick(instance).skip_message == "No stream is held at its maximum."
        store(instance, passed=False)
        assert tick(instance, streams=[by_hand]).skip_message == "No stream is held at its maximum."
    assert told == []


def test_a_stream_without_a_maximum_may_be_held_back_by_its_shards(told):
    shards = "R 1.20 is at or above 0.9, but 2 shards are read by 2 tasks"
    with dg.DagsterInstance.ephemeral() as instance:
        store(instance, passed=False, why=shards)
        tick(instance, streams=[stream(maximum=None)])
    assert told == [f"clicks has been at its maximum for 0 min: {shards}"]


def test_how_long_counts_from_when_the_check_failed():
    one = Pinned("clicks", since=1000.0, reason="R is 1.20")
    assert overdue([one], {}, now=1599.0, after=600) == []
    assert overdue([one], {}, now=1600.0, after=600) == [one]
    assert overdue([one], {"clicks": 1000.0}, now=1600.0, after=600) == []
    assert overdue([one], {"clicks": 400.0}, now=1600.0, after=600) == [one]
    assert one.describe(now=1660.0) == "clicks has been at its maximum for 11 min: R is 1.20"
