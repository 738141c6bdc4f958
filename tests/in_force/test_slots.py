"""The slots that Spark has said are needed stand until others are declared."""

from dataclasses import replace

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.steering import Steered
from dagster_sparkscale.clusters.records.store import Record, SlotsNeeded
from dagster_sparkscale.declare.realtime import RealTime
from dagster_sparkscale.driver.settings import REALTIME_SLOTS, REALTIME_WAIT
from dagster_sparkscale.in_force import slots
from dagster_sparkscale.in_force.limits import bounds_in_force
from dagster_sparkscale.in_force.steering import combined
from dagster_sparkscale.observe.end_report import Slots
from tests.fakes import driver, structured

STREAM = structured(autoscale=RatioPolicy(max_executors=8))
RECORD = replace(Record.new("r"), epoch=3)
REFUSED = Slots(needed=6, free=1, registered=1)


def test_the_next_driver_begins_with_what_spark_has_said_and_waits_for_it():
    record, lines = slots.at_start(RECORD, STREAM, REFUSED)
    assert record.slots == SlotsNeeded(6, 3)
    assert slots.settings_of(STREAM, record) == {REALTIME_SLOTS: "6", REALTIME_WAIT: "300"}
    assert lines == (
        "Spark refused a real-time query of driver 3, which needed 6 task slots at once, and 1 "
        "were free: the new driver begins with 6 executors or more, and waits for 6 slots; declare "
        "realtime=RealTime(slots=6)",
    )
    again, none = slots.at_start(record, STREAM, None)
    assert (again, none) == (record, ())


def test_less_than_was_known_does_not_replace_it():
    record = replace(RECORD, slots=SlotsNeeded(12, 2))
    assert slots.at_start(record, STREAM, REFUSED)[0].slots.needed == 12


def test_a_declaration_replaces_what_spark_has_said():
    record = replace(RECORD, slots=SlotsNeeded(6, 3))
    declared = structured(realtime=RealTime(slots=4), autoscale=RatioPolicy(max_executors=8))
    assert slots.said(declared, record) is None
    assert slots.at_start(record, declared, None)[0].slots is None
    # Spark knows better, and its word stands while that declaration does.
    record, _ = slots.at_start(record, declared, REFUSED)
    assert slots.said(declared, record) == SlotsNeeded(6, 3, declared=4)
    assert slots.settings_of(declared, record) == {REALTIME_SLOTS: "6"}


def test_slots_that_did_not_register_say_nothing_new():
    waited = Slots(6, 4, 4, declared=True)
    declared = structured(realtime=RealTime(slots=6))
    assert slots.at_start(RECORD, declared, waited) == (RECORD, ())
    failed = driver(DriverState.FAILED, slots=waited)
    assert slots.out_of_reach(declared, failed) is None


@pytest.mark.parametrize(
    "entry", [None, Steered(by="a", reason="", since=0.0, minimum=1, maximum=2)]
)
def test_nothing_brings_the_executors_below_it(entry):
    record = replace(RECORD, slots=SlotsNeeded(6, 3))
    found = driver(record=record, declared={"max_executors": "8"})
    steering = combined({"bounds": entry} if entry else {}, {}, 1.0)
    bounds = bounds_in_force(STREAM, found, steering)
    assert (bounds.minimum, bounds.least) == (6, 6)
    assert bounds.clamp(1) == bounds.within_reach(1) == 6
    assert bounds.least_note == (
        "its real-time queries need 6 task slots at once, and an executor has 1, as Spark said to "
        "driver 3"
    )


def test_what_the_maximum_can_not_hold_is_out_of_reach():
    small = structured(autoscale=RatioPolicy(max_executors=4))
    failed = driver(DriverState.FAILED, slots=REFUSED)
    why = slots.out_of_reach(small, failed)
    assert why is not None and why.startswith(
        "Spark refused its real-time queries: they need 6 task slots at once, and 1 of 1 were free"
    )
    assert "raise max_executors to 6 and declare realtime=RealTime(slots=6)" in why
    assert slots.out_of_reach(STREAM, failed) is None
    assert slots.out_of_reach(structured(), failed) is None  # no maximum: what the cluster has
    assert slots.out_of_reach(small, driver(DriverState.FAILED)) is None
