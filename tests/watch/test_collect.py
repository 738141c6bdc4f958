import sys
import threading
import time
from types import SimpleNamespace

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.watch import collect
from dagster_sparkscale.watch.collect import HANGING, Collector
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import structured
from tests.in_memory.cluster import World
from tests.waiting import HANGS, wait_for
from tests.watch.hanging import LOOKS, hanging

STREAMS = [structured(f"s{number}") for number in range(40)]


@pytest.fixture
def world() -> World:
    world = World()
    for stream in STREAMS:
        world.run(stream)
    return world


def test_every_stream_is_looked_at(world):
    sightings = Collector().collect(world.cluster, STREAMS, deadline=HANGS)
    assert list(sightings) == [stream.name for stream in STREAMS]
    assert all(s.stream == name == s.status.stream for name, s in sightings.items())


def test_no_stream_no_sighting(world):
    assert Collector().collect(world.cluster, [], deadline=HANGS) == {}


def test_a_look_that_hangs_does_not_hold_up_the_rest(world):
    others = {stream.name for stream in STREAMS} - {"s3"}
    with hanging(world, "s3", others, seconds=4):
        outcome = Collector().collect(world.cluster, STREAMS, deadline=4.0)
    assert outcome["s3"].error == "not looked at within 4.0 s: too many agents are slow"
    assert outcome["s3"].status is outcome["s3"].driver is None
    assert all(outcome[name].status for name in others)


def test_streams_that_wait_behind_looks_that_hang_are_said_not_to_be_seen(world):
    release = threading.Event()
    world.on_find = lambda stream: release.wait(HANGS)
    try:
        sightings = Collector().collect(world.cluster, STREAMS, deadline=0.2)
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
        Collector().collect(world.cluster, STREAMS, deadline=0.2)
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
    sightings = Collector().collect(world.cluster, STREAMS, deadline=HANGS)
    assert [name for name, s in sightings.items() if s.error] == ["s1"]


def test_only_who_was_waited_for_in_vain_is_put_off(world, monkeypatch):
    def find(stream):
        if stream == "s1":
            raise ClusterError("its record is broken")

    world.on_find = find
    monkeypatch.setattr(collect, "SLOW", 0.0)  # so any look is slow
    collector = Collector()
    collector.collect(world.cluster, STREAMS, deadline=HANGS)
    now = time.monotonic()
    put_off = {name for name, turn in collector._turns.items() if turn > now}
    assert put_off == {"s1"}


def test_the_agent_is_given_less_time_than_the_whole(world):
    given = []

    class Noting(type(world.cluster)):
        def status(self, driver, timeout=5.0, window=None):
            given.append((timeout, window))
            return super().status(driver, timeout, window)

    Collector().collect(Noting(world=world.key), STREAMS[:1], deadline=HANGS)
    Collector().collect(Noting(world=world.key), STREAMS[:1], deadline=4)
    assert given == [(5.0, 60.0), (4.0, 60.0)]


def looks() -> list[threading.Thread]:
    """The threads that look, or hang at it."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(LOOKS)]


class TestLooksThatHang:
    """They outlive their tick; no thread can be ended from outside."""

    @pytest.fixture
    def release(self):
        release = threading.Event()
        yield release
        release.set()
        for thread in looks():
            thread.join(HANGS)

    def test_they_have_a_limit_over_all_ticks(self, release):
        world, streams = World(), [structured(f"s{number}") for number in range(200)]
        world.on_find = lambda stream: release.wait(HANGS)
        collector, before = Collector(), len(looks())

        def as_many_hang_as_may() -> bool:
            assert len(collector.collect(world.cluster, streams, deadline=0.2)) == len(streams)
            assert len(looks()) - before <= HANGING
            return len(looks()) - before == HANGING

        wait_for("as many looks that hang as may", as_many_hang_as_may)
        sightings = collector.collect(world.cluster, streams, deadline=0.2)
        assert len(looks()) - before == HANGING
        errors = [sighting.error for sighting in sightings.values()]
        assert sum("a look at it has hung for" in error for error in errors) == HANGING
        others = f"not looked at: {HANGING} looks hang, and no more begin until one returns"
        assert errors.count(others) == len(streams) - HANGING

    def test_such_a_stream_is_not_looked_at_again_and_the_others_are(self, world, release):
        begun = []

        def find(stream):
            begun.append(stream)
            if stream == "s3":
                release.wait(HANGS)

        world.on_find = find
        collector = Collector()
        collector.collect(world.cluster, STREAMS, deadline=0.5)
        for _ in range(3):
            # Ends at once: nothing of the tick's time is spent on it.
            sightings = collector.collect(world.cluster, STREAMS, deadline=HANGS)
            assert [name for name, s in sightings.items() if s.error] == ["s3"]
            assert "a look at it has hung for" in sightings["s3"].error
        assert begun.count("s3") == 1

    def test_once_it_has_returned_the_stream_is_looked_at_again(self, world, release):
        world.on_find = lambda stream: stream != "s3" or release.wait(HANGS)
        collector = Collector()
        collector.collect(world.cluster, STREAMS, deadline=0.5)
        release.set()

        def seen():
            return collector.collect(world.cluster, STREAMS, deadline=HANGS)["s3"].status

        assert wait_for("the look to return", seen, every=0.01)


class TestFindingFirst:
    """All drivers are found before any agent is waited for."""

    @pytest.fixture
    def silent(self, world):
        release = threading.Event()
        world.on_look = lambda kept: release.wait(HANGS)
        yield world
        release.set()

    def test_of_streams_whose_agents_are_silent_the_drivers_are_known(self, silent):
        sightings = Collector().collect(silent.cluster, STREAMS, deadline=1.0)
        assert {each.driver.epoch for each in sightings.values()} == {1}
        assert all(
            each.late and "not looked at within" in each.error for each in sightings.values()
        )

    def test_one_that_has_failed_is_seen_whole_but_for_its_log(self, silent, monkeypatch):
        cluster = type(silent.cluster)
        asked = threading.Event()

        def logs(self, driver, lines=50):
            asked.set()
            return silent.on_look(None) and ""

        monkeypatch.setattr(cluster, "logs", logs)
        silent.end("s39")
        seen = Collector().collect(silent.cluster, STREAMS[39:], deadline=0.3)["s39"]
        assert asked.is_set()
        assert (seen.driver.state.value, seen.error, seen.late) == ("failed", None, False)
        assert [each.epoch for each in seen.history] == [1]
        assert seen.log_tail == ""

    def test_streams_that_there_was_no_time_to_judge_have_the_first_turn(self, world):
        collector, order = Collector(), []
        world.on_find = order.append
        collector.collect(world.cluster, STREAMS, deadline=HANGS)
        collector.first(["s20", "s30"])
        order.clear()
        collector.collect(world.cluster, STREAMS, deadline=HANGS)
        assert {"s20", "s30"} <= set(order[:4])

    def test_a_list_of_streams_that_hangs_holds_up_no_tick_and_is_asked_for_once(
        self, world, monkeypatch
    ):
        release, asked = threading.Event(), []

        def snapshot(cluster):
            asked.append(cluster)
            release.wait(HANGS)
            return cluster

        monkeypatch.setattr(type(world.cluster), "snapshot", snapshot)
        collector = Collector()
        try:
            for _ in range(3):
                sightings = collector.collect(world.cluster, STREAMS, deadline=0.1)
                assert all(
                    "streams can't be listed: no answer" in s.error for s in sightings.values()
                )
            assert len(asked) == 1
        finally:
            release.set()


class TestTurns:
    """A tick has time for a few silent agents only; here for six, one after the other."""

    @pytest.fixture
    def ticks(self, monkeypatch):
        """Names looked at in each of so many ticks, the silent streams declared first."""
        module, clock = sys.modules[Collector.__module__], SimpleNamespace(now=0.0)
        monkeypatch.setattr(module, "THREADS", 1)
        monkeypatch.setattr(
            module,
            "time",
            SimpleNamespace(monotonic=lambda: clock.now, process_time=lambda: clock.now),
        )

        def run(count: int, silent: int, healthy: int) -> list[set[str]]:
            world, collector, looked = World(), Collector(), []
            streams = [structured(f"silent{n}") for n in range(silent)]
            streams += [structured(f"healthy{n}") for n in range(healthy)]
            for stream in streams:
                world.run(stream)

            def find(name):
                looked[-1].add(name)
                clock.now += 5.0 if name.startswith("silent") else 0.001
                if name.startswith("silent"):
                    raise ClusterError("no answer in 5 s")

            world.on_find = find
            for tick in range(count):
                clock.now = 60.0 * tick
                looked.append(set())
                sightings = collector.collect(world.cluster, streams, deadline=30.0)
                assert {n for n, s in sightings.items() if s.status} <= looked[-1]
            return looked

        return run

    def test_silent_streams_in_front_keep_nobody_from_being_looked_at(self, ticks):
        looked = ticks(5, silent=20, healthy=20)
        assert len(set.union(*looked)) == 40

    def test_in_a_new_process_those_come_first_that_were_evaluated_longest_ago(self, ticks):
        world, streams = World(), [structured(f"s{n}") for n in range(9)]
        looked = list[str]()

        def find(name):
            looked.append(name)

        for stream in streams:
            world.run(stream)
        world.on_find = find
        elapsed = {f"s{n}": 60.0 * n for n in range(8)}  # nobody has evaluated the last one
        Collector().collect(world.cluster, streams, deadline=30.0, elapsed=elapsed)
        assert looked == ["s8", *(f"s{n}" for n in reversed(range(8)))]

    @pytest.mark.parametrize(
        ("takes", "until", "turn"),
        [(3.0, 10.0, 100.0), (3.0, 2.0, None), (6.0, 2.0, 100.0)],
        ids=["in time", "too late", "too late, as it always may be"],
    )
    def test_who_was_seen_too_late_keeps_its_turn(self, monkeypatch, takes, until, turn):
        clock, collector, [stream] = SimpleNamespace(now=100.0), Collector(), STREAMS[:1]
        monkeypatch.setattr(collect, "time", SimpleNamespace(monotonic=lambda: clock.now))

        def half():
            clock.now += takes
            return Sighting(stream.name)

        collector._timed(stream, set(), 100.0 + until, half, last=True)
        assert collector._turns.get(stream.name) == turn

    def test_from_then_on_those_that_answer_are_looked_at_in_every_tick(self, ticks):
        healthy = {f"healthy{n}" for n in range(20)}
        assert all(healthy <= names for names in ticks(12, silent=20, healthy=20)[3:])

    @pytest.mark.parametrize(("silent", "healthy"), [(20, 20), (100, 10), (60, 0)])
    def test_nobody_waits_for_longer_than_it_takes_to_look_at_all(self, ticks, silent, healthy):
        everybody = -(-silent // 6) + 2
        looked = ticks(4 * everybody, silent, healthy)
        for first in range(3 * everybody):
            assert len(set.union(*looked[first : first + everybody])) == silent + healthy


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ClusterError("the API server does not answer"), "the API server does not answer"),
        (KeyError("items"), "KeyError: 'items'"),
    ],
)
def test_where_nothing_can_be_told_of_any_stream_each_says_why(world, monkeypatch, error, told):
    def unreachable(cluster):
        raise error

    monkeypatch.setattr(type(world.cluster), "snapshot", unreachable)
    sightings = Collector().collect(world.cluster, STREAMS, deadline=HANGS)
    assert list(sightings) == [stream.name for stream in STREAMS]
    assert {each.error for each in sightings.values()} == {told}
