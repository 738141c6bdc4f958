"""What a start is asked for with, and what it is asked in between: it is heeded, timed and kept."""

from dataclasses import dataclass, replace

import pytest

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.errors import ClusterError, Held, Overtaken, StaleEpoch
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.starts import last_refusal
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.lifecycle import reconcile
from dagster_sparkscale.lifecycle.reconcile import STOP_TIMEOUT, Action
from tests.fakes import dstream, structured
from tests.in_memory.cluster import World
from tests.in_memory.store import MemoryStore
from tests.lifecycle.reconciling import STREAM, start, submissions

LOOK = 5.0
"""Seconds that pass with each look at the cluster, and at an agent."""


@dataclass
class Clock:
    """The clock of `reconcile`."""

    now: float = 1000.0

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(world: World, monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(reconcile, "time", clock)
    world.on_find = lambda _stream: clock.sleep(LOOK)
    world.on_look = lambda _kept: clock.sleep(LOOK)
    return clock


def remembered(world: World, **fields: object) -> None:
    world.records["clicks"] = replace(world.records["clicks"], **fields)


class TestAskedEarlier:
    """A run may wait in a queue while somebody stops the stream, or come back to it later."""

    @pytest.fixture
    def stopped(self, world: World, clock: Clock) -> None:
        world.run(STREAM)
        world.end("clicks", DriverState.STOPPED)
        remembered(
            world, desired="stopped", desired_since=clock.now, asked={"stop": clock.now}, history=()
        )

    @pytest.mark.usefixtures("stopped")
    def test_a_stop_that_was_asked_for_later_stands(self, world, clock):
        early = Requester("restart run 1", "restart", clock.now - 61)
        with pytest.raises(Overtaken, match="stop was asked for 61 s after this"):
            start(world, restart=True, requester=early)
        assert len(submissions(world)) == 1 and world.records["clicks"].lease is None

    @pytest.mark.usefixtures("stopped")
    def test_one_that_may_be_the_earlier_wish_does_not(self, world, clock):
        same = Requester("restart run 1", "restart", clock.now - 60)
        assert start(world, restart=True, requester=same).driver.epoch == 2

    @pytest.mark.usefixtures("stopped")
    def test_who_comes_back_to_it_does_not_start_what_was_stopped(self, world, clock):
        begun = clock.now
        outcome = start(world, unless_stopped=True)
        assert (outcome.action, outcome.driver.epoch) == (Action.HELD, 1)
        said = "'clicks' was asked to stop: materialize it to start it"
        assert (outcome.reason, outcome.seconds) == (said, clock.now - begun)
        remembered(world, desired="running")
        assert start(world, unless_stopped=True).driver.epoch == 2

    def test_a_stream_that_never_ran_is_started(self, world):
        asked = Requester("start run 1", "start", 1.0)
        assert start(world, unless_stopped=True, requester=asked).driver.epoch == 1


class TestSeconds:
    """How long it took, whatever it came to."""

    def test_to_attach_one_look_and_one_answer(self, world, clock):
        world.run(STREAM)
        begun = clock.now
        assert start(world).seconds == clock.now - begun == 2 * LOOK

    @pytest.mark.parametrize(
        ("stream", "state", "action"),
        [
            (STREAM, DriverState.STOPPED, Action.ATTACHED),
            (structured(), DriverState.FAILED, Action.HELD),  # its pauses are ten seconds and more
        ],
    )
    def test_to_find_that_there_is_nothing_to_recover(self, world, clock, stream, state, action):
        world.run(stream)
        world.end("clicks", state, ended_at=clock.now)
        begun = clock.now
        outcome = start(world, stream, failed_epoch=1, cause="recovery")
        assert (outcome.action, outcome.driver.epoch) == (action, 1)
        assert outcome.seconds == clock.now - begun == LOOK

    def test_a_wait_ends_with_the_look_that_uses_it_up(self, world, clock):
        world.on_find = lambda _stream: None
        answers = []

        def look(kept):
            kept.queries = ()
            clock.sleep(LOOK)
            answers.append(clock.now)

        world.on_look = look
        assert start(world, start_wait=2 * LOOK).seconds == 2 * LOOK
        assert len(answers) == 2


class TestWhoAsks:
    def test_holds_the_lease_by_its_name(self, world):
        holders = []

        def find(stream):
            lease = world.records[stream].lease
            holders.append(lease.holder if lease is not None else None)

        world.on_find = find
        start(world, name="start run 7")
        assert holders[0] == "start run 7"

    def test_the_last_who_declares_it_and_says_so_is_remembered_with_its_asset(self, world):
        stream = structured(key_prefix=("team",))
        for owner, remembers in (("a", "a"), ("", "a"), ("b", "b")):
            start(world, stream, owner=owner)
            record = world.records["clicks"]
            assert (record.owner, record.asset) == (remembers, ("team", "clicks"))

    def test_is_told_whose_driver_is_another(self, world):
        world.run(STREAM)
        with pytest.raises(StaleEpoch, match=r"^'clicks': this was asked for driver 2, and"):
            start(world, epoch=2)


class TestRestart:
    def test_of_a_stream_that_is_held_is_refused_before_its_driver_is_touched(self, world):
        world.run(STREAM)
        with world.cluster.lease("clicks", "reconfigure run") as lease:
            world.cluster.hold(lease, "rewriting state", "run it again")
        with pytest.raises(Held, match=r"^'clicks' is held by reconfigure run"):
            start(world, restart=True)
        assert world.cluster.find("clicks").state is DriverState.RUNNING
        assert world.cluster.store().read("clicks").desired == "running"

    def test_looks_for_what_keeps_that_stream_from_a_launch(self, world):
        world.run(STREAM)
        checked = []
        world.on_check = checked.append
        start(world, restart=True)
        assert checked == [STREAM]

    @pytest.mark.parametrize(
        ("takes", "how", "is_killed"),
        [
            (10.0, {"stop_timeout": 10.0}, False),
            (10.5, {"stop_timeout": 10.0}, True),
            (STOP_TIMEOUT, {}, False),
            (STOP_TIMEOUT + 0.5, {}, True),
        ],
    )
    def test_gives_the_old_driver_its_time_to_end(self, world, takes, how, is_killed):
        world.run(STREAM, ends_after=takes)
        start(world, restart=True, **how)
        assert ("kill clicks" in world.calls) == is_killed


class TestBetweenEndAndStart:
    @pytest.mark.parametrize("ran", [True, False])
    def test_it_is_asked_what_to_remember_by_how_the_driver_before_has_ended(self, world, ran):
        world.run(STREAM, drained=True)
        if not ran:
            world.end("clicks", drained=True)

        def ended(record: Record, driver: Driver) -> tuple[Record, str]:
            assert record == world.records["clicks"]
            assert (driver.epoch, driver.state, driver.drained) == (1, DriverState.FAILED, True)
            return replace(record, receivers_generations=7), "set_receivers"

        start(world, restart=True, ended=ended)
        record = world.records["clicks"]
        assert record.receivers_generations == 7
        assert [each.cause for each in record.history] == ["manual", "set_receivers"]

    def test_it_is_not_asked_where_there_was_none(self, world):
        def ended(record: Record, driver: Driver) -> tuple[Record, str]:
            raise AssertionError("nothing has ended")

        assert start(world, ended=ended).driver.epoch == 1

    @pytest.mark.parametrize("drained", [True, False, None])
    def test_as_many_receivers_start_as_are_declared_by_now_once_the_input_is_drained(
        self, world, drained
    ):
        world.run(dstream(receivers=2), drained=drained)
        remembered(world, receivers=2, receivers_declared=2)
        outcome = start(world, dstream(receivers=3), restart=True)
        (line,) = outcome.dropped
        has = 3 if drained else 2
        assert world.records["clicks"].receivers == has
        assert (line == "receivers 2 -> 3, as it is declared now") == bool(drained)


class TestWished:
    def test_a_stop_that_has_failed_is_over_once_it_is_attached_to(self, world, clock):
        world.run(STREAM)
        remembered(world, desired="stopped", desired_since=1.0)
        start(world)
        record = world.records["clicks"]
        assert (record.desired, record.desired_since) == ("running", 1000.0 + LOOK)

    def test_what_is_wished_already_keeps_its_date(self, world):
        world.run(STREAM)
        remembered(world, desired="running", desired_since=1.0)
        start(world)
        assert world.records["clicks"].desired_since == 1.0


class TestWhatItFailedOf:
    @pytest.fixture(autouse=True)
    def _failed(self, world):
        world.run(STREAM)
        world.end("clicks")

    def test_is_remembered_also_where_it_has_no_words(self, world):
        def fails():
            raise ClusterError

        world.on_prepare = fails
        with pytest.raises(ClusterError):
            start(world, failed_epoch=1, cause="recovery")
        assert last_refusal(world.cluster.history("clicks")) == "ClusterError()"

    def test_is_raised_though_it_can_t_be_remembered(self, world, monkeypatch):
        def fails():
            monkeypatch.setattr(MemoryStore, "swap", lost)
            raise ClusterError("no master")

        def lost(_store, _stream, _record):
            raise ClusterError("the store is gone as well")

        world.on_prepare = fails
        with pytest.raises(ClusterError, match="no master"):
            start(world, failed_epoch=1, cause="recovery")
