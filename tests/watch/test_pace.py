"""How fast Dagster stores what it is told."""

import dagster as dg
import pytest

from dagster_sparkscale.watch.pace import ENOUGH, LEAST, MOST, STORING, Pace


def events(count: int, at: int = 0) -> list:
    made = []
    for number in range(count):
        key = dg.AssetKey(f"s{number}")
        made.append(dg.AssetCheckEvaluation(asset_key=key, check_name="running", passed=True))
        kind = dg.AssetObservation if number % 2 else dg.AssetMaterialization
        made.append(kind(asset_key=key, metadata={"R": 0.5, "at": at}))
    return made


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def store(instance, clock, some, seconds: float) -> None:
    for event in some:
        instance.report_runless_asset_event(event)
        clock[0] += seconds


def test_it_is_what_the_event_log_says(instance, clock):
    pace, some = Pace(), events(30)
    pace.told(some)
    store(instance, clock, some, 0.2)
    pace.measure(instance)
    assert pace.seconds == pytest.approx(0.2, rel=0.01)


def test_where_nothing_was_stored_it_stays_near_what_it_was(instance, clock):
    pace, some = Pace(), events(30)
    store(instance, clock, some, 0.0)
    clock[0] += 3600
    pace.told(events(30, at=1))
    pace.measure(instance)
    assert pace.seconds == STORING


def test_a_few_events_say_nothing_and_what_was_slow_is_not_so_for_ever(instance):
    pace = Pace()
    pace.seconds = 1.0
    for _ in range(20):
        pace.told(events(ENOUGH // 2 - 2))
        pace.measure(instance)
    assert pace.seconds == pytest.approx(STORING, rel=0.01)


def test_a_clock_that_stands_still_makes_nothing_free(instance, clock):
    pace = Pace()
    for tick in range(4):
        before, some = pace.seconds, events(30, at=tick)
        pace.told(some)
        store(instance, clock, some, 0.0)
        pace.measure(instance)
        assert pace.seconds >= before / 2
    assert pace.seconds == LEAST


def test_a_clock_that_is_set_ahead_makes_nothing_as_slow_as_that(instance, clock):
    pace, some = Pace(), events(30)
    pace.told(some)
    store(instance, clock, some[:30], 0.01)
    clock[0] += 3600
    store(instance, clock, some[30:], 0.01)
    pace.measure(instance)
    assert pace.seconds == MOST


def test_sensors_that_share_a_database_reckon_with_each_other(instance):
    assert Pace(5).seconds == 5 * STORING
