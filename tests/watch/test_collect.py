import threading

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.watch.collect import collect
from tests.fakes import World, structured
from tests.waiting import HANGS
from tests.watch.hanging import hanging

STREAMS = [structured(f"s{number}") for number in range(40)]


@pytest.fixture
def world() -> World:
    world = World()
    for stream in STREAMS:
        world.run(stream)
    return world


def test_every_stream_is_looked_at(world):
    sightings = collect(world.cluster, STREAMS, deadline=HANGS)
    assert list(sightings) == [stream.name for stream in STREAMS]
    assert all(s.stream == name == s.status.stream for name, s in sightings.items())


def test_no_stream_no_sighting(world):
    assert collect(world.cluster, [], deadline=HANGS) == {}


def test_a_look_that_hangs_does_not_hold_up_the_rest(world):
    others = {stream.name for stream in STREAMS} - {"s3"}
    with hanging(world, "s3", others, seconds=4):
        outcome = collect(world.cluster, STREAMS, deadline=4.0)
    assert outcome["s3"].error == "not looked at within 4 s: too many agents are slow"
    assert outcome["s3"].status is outcome["s3"].driver is None
    assert all(outcome[name].status for name in others)


def test_streams_that_wait_behind_looks_that_hang_are_said_not_to_be_seen(world):
    release = threading.Event()
    world.on_find = lambda stream: release.wait(HANGS)
    try:
        sightings = collect(world.cluster, STREAMS, deadline=0.2)
    finally:
        release.set()
    assert len(sightings) == len(STREAMS)
    assert all("not looked at within 0.2 s" in s.error for s in sightings.values())


def test_looks_that_never_began_are_called_off(world):
    release, began = threading.Event(), []

    def find(stream):
        began.append(stream)
        release.wait(HANGS)

    world.on_find = find
    try:
        collect(world.cluster, STREAMS, deadline=0.2)
    finally:
        release.set()
    for thread in threading.enumerate():
        if thread.name.startswith("sparkscale-look"):
            thread.join(HANGS)
    assert len(began) < len(STREAMS)


def test_a_stream_that_cannot_be_looked_at_does_not_spoil_the_rest(world):
    def find(stream):
        if stream == "s1":
            raise ClusterError("its record is broken")

    world.on_find = find
    sightings = collect(world.cluster, STREAMS, deadline=HANGS)
    assert [name for name, s in sightings.items() if s.error] == ["s1"]


def test_the_agent_is_given_less_time_than_the_whole(world):
    given = []

    class Noting(type(world.cluster)):
        def status(self, driver, timeout=5.0, window=None):
            given.append((timeout, window))
            return super().status(driver, timeout, window)

    collect(Noting(world=world.key), STREAMS[:1], deadline=HANGS)
    collect(Noting(world=world.key), STREAMS[:1], deadline=4)
    assert given == [(5.0, 60.0), (4.0, 60.0)]
