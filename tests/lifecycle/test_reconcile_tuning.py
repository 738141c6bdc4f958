"""What was tuned of a stream's limits: each start has it, until something else is declared."""

import time
from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.declare.backpressure import Retune
from dagster_sparkscale.declare.limits import SourceLimits
from dagster_sparkscale.in_force.tuned import declared_limits
from dagster_sparkscale.lifecycle.jobs import describe
from tests.fakes import structured
from tests.in_memory.cluster import World
from tests.lifecycle.reconciling import start

SETTING = "spark.sparkscale.options.clicks.maxOffsetsPerTrigger"


def limited(most: int = 1000, **fields):
    return structured(limits={"clicks": SourceLimits(max_offsets_per_trigger=most)}, **fields)


def tuned(record: Record) -> Record:
    declared = declared_limits(limited())
    return replace(record, tuning=Tuning({SETTING: "77"}, "somebody", 1.0, declared=declared))


def settings(world: World) -> dict[str, str]:
    return dict(world.streams["clicks"].settings)


@pytest.fixture
def running(world: World) -> World:
    """A stream that was tuned since its driver was started."""
    world.run(limited())
    world.records["clicks"] = tuned(world.records["clicks"])
    return world


def test_each_start_has_it(running):
    assert settings(running) == {}
    for epoch in (2, 3):
        outcome = start(running, limited(), restart=True)
        assert (outcome.driver.epoch, outcome.dropped) == (epoch, ())
        assert settings(running) == {SETTING: "77"}


def test_also_the_one_after_a_failure(running):
    running.end("clicks")
    start(running, limited())
    assert settings(running) == {SETTING: "77"}


def test_settings_of_one_start_win(running):
    start(running, limited(), restart=True, settings={SETTING: "5"})
    assert settings(running) == {SETTING: "5"}


def test_another_declaration_wins_and_is_told_once(running):
    outcome = start(running, limited(2000), restart=True)
    assert settings(running) == {}
    assert f"{SETTING} = 77, tuned by somebody, does not stand any more" in describe(outcome)
    assert start(running, limited(2000), restart=True).dropped == ()
    assert settings(running) == {}


def test_what_is_declared_of_a_stream_that_is_retuned_is_noted(world):
    stream, begun = limited(retune=Retune()), time.time()
    start(world, stream)
    tuning = world.records["clicks"].tuning
    assert tuning is not None
    assert (tuning.settings, tuning.declared, tuning.by_hand) == ({}, {SETTING: "1000"}, False)
    assert begun <= tuning.at <= time.time()
    start(world, limited())
    assert world.records["clicks"].tuning == tuning


def test_what_is_to_be_remembered_is_before_anything_is_stopped(world):
    world.run(limited())
    at_the_stop = []
    world.streams["clicks"].ends_after = 0
    original = type(world.cluster).end

    def end(cluster, driver, lease, graceful, timeout):
        at_the_stop.append(world.records["clicks"].tuning)
        return original(cluster, driver, lease, graceful, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.cluster), "end", end)
        start(world, limited(), restart=True, remember=tuned)
    assert at_the_stop == [tuned(Record.new("x")).tuning]
    assert settings(world) == {SETTING: "77"}


def test_and_not_where_there_will_be_no_start(world):
    world.run(limited())

    def no_program(stream):
        raise ClusterError("no such program")

    world.on_check = no_program
    with pytest.raises(ClusterError, match="no such program"):
        start(world, limited(), restart=True, remember=tuned)
    start(world, limited(), remember=tuned)  # attached to the one that runs
    assert world.records["clicks"].tuning is None


def test_a_driver_that_has_ended_meanwhile_is_followed_by_one_that_has_it(world):
    world.run(limited())
    world.end("clicks", DriverState.FAILED)
    start(world, limited(), restart=True, remember=tuned)
    assert settings(world) == {SETTING: "77"}
