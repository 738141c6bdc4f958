"""The number of receivers is changed: drained, remembered, started, and put back if it fails."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError, OperationInProgress, StaleEpoch
from dagster_sparkscale.clusters.leases import Lease
from dagster_sparkscale.clusters.requests import NotDone, Overtaken, Refused
from dagster_sparkscale.clusters.store import Record
from dagster_sparkscale.observe.status import Executor, Receiver
from dagster_sparkscale.receivers.count import CHANGED, KEPT
from dagster_sparkscale.receivers.recount import Request, Story, recount
from tests.fakes import Kept, World, batch, dstream
from tests.lifecycle.reconciling import start
from tests.receivers.streams import counting, receiving, spread_over

STREAM = counting()
NUMBER, GENERATION = "spark.sparkscale.receivers", "spark.sparkscale.receivers.generation"


def carry_out(
    world: World, receivers: int, lines: list[str] | None = None, stream: Any = STREAM, **asked: Any
) -> Story:
    tell = [].append if lines is None else lines.append
    request = Request("clicks", receivers, **{"wait": 0.05, **asked})
    return recount(world.cluster, stream, request, holder="the test", tell=tell)


def record(world: World) -> Record:
    return world.records["clicks"]


def causes(world: World) -> list[str]:
    return [each.cause for each in record(world).history]


def number_and_generation(world: World) -> tuple[int | None, int]:
    return record(world).receivers, record(world).receivers_generation


def starts_its_receivers(kept: Kept) -> None:
    """A program that takes its number as it should."""
    number = int(kept.settings.get(NUMBER, 2))
    kept.registered = kept.requested
    kept.executors = (Executor("0", "host", 4), Executor("1", "host", 4))
    kept.receivers = tuple(Receiver(id, executor=str(id % 2)) for id in range(number))


@pytest.fixture
def world() -> World:
    """A driver with two receivers, which ends drained; so does each that comes after it."""
    world = World(on_submit=starts_its_receivers)
    spread_over(world, STREAM, (1, 1))
    now = record(world)
    world.records["clicks"] = replace(
        now, receivers=2, receivers_declared=2, revision=now.revision + 1
    )
    world.on_look = lambda kept: setattr(kept, "drained", True)
    return world


def crashes(world: World, when: Callable[[Kept], bool]) -> None:
    """Drivers that `when` is so of crash at their first look."""

    def look(kept: Kept) -> None:
        kept.drained = True
        if when(kept):
            kept.log = ["KeyError: 'port 3'"]
            world.end("clicks")

    world.on_look = look


class TestChange:
    def test_it_is_a_restart_with_the_number_and_a_new_folder(self, world: World) -> None:
        lines: list[str] = []
        story = carry_out(world, 3, lines)
        assert (story.ending, story.failed) == ("changed", False)
        assert (story.before, story.wanted, story.after, story.generation) == (2, 3, 3, 1)
        assert story.driver is not None and story.driver.epoch == 2
        assert world.streams["clicks"].settings == {NUMBER: "3", GENERATION: "1"}
        assert causes(world) == ["manual", CHANGED]
        assert lines == [
            "before: 2 receivers; setting 3, by a restart",
            "driver 1 has ended: drained",
            "driver 2 was started with 3 receivers",
            "3 receivers run",
        ]

    def test_starts_to_come_have_it_and_another_change_another_folder(self, world: World) -> None:
        carry_out(world, 3)
        world.end("clicks")
        world.run(STREAM)
        assert world.streams["clicks"].settings == {NUMBER: "3", GENERATION: "1"}
        carry_out(world, 1)
        assert world.streams["clicks"].settings == {NUMBER: "1", GENERATION: "2"}

    def test_there_are_executors_for_them(self, world: World) -> None:
        stream = counting(executor_cores=2)
        world = World(on_submit=starts_its_receivers)
        spread_over(world, stream, (2,), drained=True)
        carry_out(world, 5, stream=stream)
        assert world.streams["clicks"].requested == 3

    def test_the_number_that_there_is_changes_nothing(self, world: World) -> None:
        story = carry_out(world, 2)
        assert (story.ending, story.after) == ("unchanged", 2)
        assert causes(world) == ["manual"]
        carry_out(world, 3)
        assert carry_out(world, 3).ending == "unchanged"

    def test_it_has_as_long_to_drain_as_is_declared(self, world: World) -> None:
        stream = counting(count={"drain": 40})
        world.streams["clicks"].ends_after = 39
        carry_out(world, 3, stream=stream)
        assert "kill clicks" not in world.calls
        world.streams["clicks"].ends_after = 41
        carry_out(world, 4, stream=stream)
        assert "kill clicks" in world.calls

    def test_one_lease_holds_from_the_end_to_the_start(self, world: World) -> None:
        held = []
        start = world.on_submit
        world.on_submit = lambda kept: (held.append(world.leases), start(kept))[1]
        carry_out(world, 3)
        assert held == [{"clicks"}] and world.leases == set()

    def test_two_at_once_are_not(self, world: World) -> None:
        with world.cluster.lease("clicks", "somebody"), pytest.raises(OperationInProgress):
            recount(
                *(world.cluster, STREAM, Request("clicks", 3)),
                holder="the test",
                tell=print,
                lease_wait=0,
            )
        assert number_and_generation(world) == (2, 0)


class TestNotDrained:
    @pytest.mark.parametrize(
        ("drained", "told"), [(False, "and did not (cut)"), (None, "and has not told that it did")]
    )
    def test_what_was_cut_keeps_its_number_and_its_checkpoint(
        self, world: World, drained: bool | None, told: str
    ) -> None:
        world.on_look = lambda kept: setattr(kept, "drained", drained)
        with pytest.raises(NotDone) as failed:
            carry_out(world, 3)
        said = str(failed.value)
        assert "the number of receivers was not changed: driver 1 had 300 s to process" in said
        assert told in said
        assert "Driver 2 was started with 2 receivers as before" in said
        assert number_and_generation(world) == (2, 0)
        assert world.streams["clicks"].settings == {NUMBER: "2", GENERATION: "0"}
        assert causes(world) == ["manual", KEPT]
        found = world.cluster.find("clicks")
        assert found is not None and found.state is DriverState.RUNNING

    def test_a_person_may_accept_the_loss(self, world: World) -> None:
        world.on_look = lambda kept: setattr(kept, "drained", False)
        story = carry_out(world, 3, accept_loss=True)
        assert (story.ending, story.notes) == (
            "changed",
            ["what was received and not processed by then is lost, as wanted"],
        )

    def test_a_run_that_is_cut_off_in_between_leaves_all_as_it_was(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the end and the new number: recovery has the old one."""

        class CutOff(BaseException):
            pass

        def cut(*_: object) -> None:
            raise CutOff

        monkeypatch.setattr("dagster_sparkscale.receivers.recount_restart.changed", cut)
        with pytest.raises(CutOff):
            carry_out(world, 3)
        assert record(world).desired == "restarting"
        world.run(STREAM)
        assert world.streams["clicks"].settings == {NUMBER: "2", GENERATION: "0"}

    def test_one_that_is_cut_off_after_it_has_the_new_one(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class CutOff(BaseException):
            pass

        def cut(*_: object, **__: object) -> None:
            raise CutOff

        with monkeypatch.context() as patched:
            patched.setattr("tests.fakes.MemoryCluster.submit", cut)
            with pytest.raises(CutOff):
                carry_out(world, 3)
        world.run(STREAM)
        assert world.streams["clicks"].settings == {NUMBER: "3", GENERATION: "1"}


class TestPutBack:
    def with_three(self, kept: Kept) -> bool:
        return kept.settings.get(NUMBER) == "3"

    def test_a_program_that_ends_before_it_runs_gets_its_number_back(self, world: World) -> None:
        crashes(world, self.with_three)
        world.on_submit = lambda kept: (
            starts_its_receivers(kept),
            setattr(kept, "queries", () if self.with_three(kept) else kept.queries),
        )[0]
        lines: list[str] = []
        with pytest.raises(NotDone) as failed:
            carry_out(world, 3, lines)
        said = str(failed.value)
        assert (
            "was not changed, and driver 3 was started with 2 as before. With 3 it failed" in said
        )
        assert "KeyError: 'port 3'" in said
        assert world.streams["clicks"].settings == {NUMBER: "2", GENERATION: "0"}
        assert causes(world) == ["manual", CHANGED, KEPT]
        assert lines[-1].startswith("putting back 2 receivers: driver 2 of 'clicks' ended before")

    def test_the_folder_it_may_have_begun_is_not_taken_again(self, world: World) -> None:
        crashes(world, self.with_three)
        with pytest.raises(NotDone):
            carry_out(world, 3)
        carry_out(world, 4)
        assert number_and_generation(world) == (4, 2)

    def test_so_is_one_that_can_not_be_launched(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        submit = type(world.cluster).submit

        def refuses_three(cluster: Any, stream: Any, lease: Any, *more: Any, **how: Any) -> Any:
            if lease.record.receivers == 3:
                raise ClusterError("no room")
            return submit(cluster, stream, lease, *more, **how)

        monkeypatch.setattr("tests.fakes.MemoryCluster.submit", refuses_three)
        with pytest.raises(NotDone, match="With 3 it failed of: no room"):
            carry_out(world, 3)
        assert number_and_generation(world) == (2, 0)
        assert causes(world) == ["manual", KEPT]

    def test_where_nothing_can_be_launched_the_number_is_the_old_one_all_the_same(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuses(*_: object, **__: object) -> None:
            raise ClusterError("no room")

        monkeypatch.setattr("tests.fakes.MemoryCluster.submit", refuses)
        with pytest.raises(NotDone) as failed:
            carry_out(world, 3)
        assert "2 are remembered again, but a start with them has failed, too: no room" in str(
            failed.value
        )
        assert number_and_generation(world) == (2, 0)

    def test_one_that_has_run_keeps_its_number_for_recovery(self, world: World) -> None:
        def runs_and_crashes(kept: Kept) -> None:
            kept.drained = True
            if self.with_three(kept):
                kept.receivers = (Receiver(0),)
                if kept.batch_seconds is not None:
                    world.end("clicks")
                kept.batch_seconds = 1.0

        world.on_look = runs_and_crashes
        with pytest.raises(NotDone, match="The number stays set: the stream's recovery starts it"):
            carry_out(world, 3, wait=60)
        assert number_and_generation(world) == (3, 1)
        assert causes(world) == ["manual", CHANGED]

    def test_also_one_that_was_seen_to_begin_and_not_to_run(self, world: World) -> None:
        """Looked at for a while, without a query."""
        looks = []

        def begins_and_crashes(kept: Kept) -> None:
            kept.drained = True
            if self.with_three(kept):
                looks.append(1)
                kept.queries, kept.receivers = (), ()
                if len(looks) > 3:
                    world.end("clicks")

        world.on_look = begins_and_crashes
        with pytest.raises(NotDone, match="failed of: driver 2, with 3 receivers, has ended"):
            carry_out(world, 3, wait=60)
        assert number_and_generation(world) == (2, 0)

    def test_nor_one_that_nobody_could_look_at_for_long(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dagster_sparkscale.receivers.recount_following._BLIND", -1.0)
        looks = []

        def silent(kept: Kept) -> None:
            kept.drained = True
            kept.reachable = not self.with_three(kept)
            looks.append(kept.driver.epoch)
            if looks.count(2) > 2:
                world.end("clicks")

        world.on_look = silent
        with pytest.raises(NotDone, match="The number stays set"):
            carry_out(world, 3, wait=60)
        assert number_and_generation(world) == (3, 1)

    def test_one_that_runs_all_the_same_keeps_its_number(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A launch of which it was said that it failed."""
        submit = type(world.cluster).submit

        def says_no(cluster: Any, *given: Any, **how: Any) -> Any:
            submit(cluster, *given, **how)
            raise ClusterError("no answer")

        monkeypatch.setattr("tests.fakes.MemoryCluster.submit", says_no)
        with pytest.raises(NotDone, match="3 receivers stay set, as driver 2 runs with them"):
            carry_out(world, 3)
        assert number_and_generation(world) == (3, 1)

    def test_one_whose_number_could_not_be_remembered_is_started_as_it_was(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = Lease.write
        world.on_look = lambda kept: setattr(kept, "drained", True)

        def refuses_three(lease: Lease, record: Record) -> Record:
            if record.receivers == 3:
                raise ClusterError("no answer")
            return write(lease, record)

        monkeypatch.setattr(Lease, "write", refuses_three)
        with pytest.raises(NotDone, match=r"with 2 as before\. With 3 it failed of: no answer"):
            carry_out(world, 3)
        assert number_and_generation(world) == (2, 0)
        assert causes(world) == ["manual", KEPT]

    def test_one_that_somebody_stops_meanwhile_stays_stopped(self, world: World) -> None:
        def stopped(kept: Kept) -> None:
            kept.drained = True
            if self.with_three(kept):
                world.end("clicks", DriverState.STOPPED)

        world.on_look = stopped
        with pytest.raises(NotDone, match=r"driver 2 is stopped now\. The number stays set"):
            carry_out(world, 3)
        assert causes(world) == ["manual", CHANGED]


class TestWhatRuns:
    def test_a_program_that_does_not_take_its_number_is_a_failure(self, world: World) -> None:
        world.on_submit = lambda kept: (
            setattr(kept, "settings", {}),
            starts_its_receivers(kept),
        )[0]
        story = carry_out(world, 3)
        assert (story.ending, story.failed, story.after) == ("short", True, 2)
        assert story.notes == [
            "the program has started 2 receivers: it has to take their number by receiver_count, "
            "and its checkpoint folder by receiver_checkpoint"
        ]

    def test_it_is_told_once_a_batch_is_through_and_not_waited_for(self, world: World) -> None:
        """A graph gets no other receivers than it has begun with."""

        def deaf(kept: Kept) -> None:
            kept.settings = {}
            starts_its_receivers(kept)
            kept.batches = (batch(1.0),)

        world.on_submit = deaf
        story = carry_out(world, 3, wait=3600.0)
        assert (story.ending, story.after) == ("short", 2)
        assert story.notes[0].startswith("the program has started 2 receivers: it has to take")

    def test_receivers_that_do_not_come_are_a_failure(self, world: World) -> None:
        def one_is_missing(kept: Kept) -> None:
            starts_its_receivers(kept)
            first, *others = kept.receivers or ()
            kept.receivers = (replace(first, executor=None, error="refused"), *others)

        world.on_submit = one_is_missing
        story = carry_out(world, 3)
        assert (story.ending, story.after) == ("short", 2)
        assert story.notes == [
            "2 of 3 receivers run; 1 of 1 executors have come",
            "receiver 0 last failed of: refused",
        ]

    def test_what_can_t_be_told_is_no_failure_and_no_success(self, world: World) -> None:
        def untold(kept: Kept) -> None:
            starts_its_receivers(kept)
            kept.receivers = None

        world.on_submit = untold
        story = carry_out(world, 3)
        assert (story.ending, story.failed, story.after) == ("not known", False, None)

    def test_those_that_take_a_while_are_waited_for(self, world: World) -> None:
        looks = []

        def slow(kept: Kept) -> None:
            kept.drained = True
            looks.append(kept.driver.epoch)
            if kept.driver.epoch == 2:
                kept.receivers = ()
                if looks.count(2) > 3:
                    starts_its_receivers(kept)

        world.on_look = slow
        assert carry_out(world, 3, wait=60).ending == "changed"


class TestRefused:
    def refused(self, world: World, receivers: int, stream: Any = STREAM, **asked: Any) -> str:
        with pytest.raises(Refused) as refused:
            carry_out(world, receivers, stream=stream, **asked)
        assert causes(world) == ["manual"]
        return str(refused.value)

    def test_a_number_outside_the_bounds(self, world: World) -> None:
        stream = counting(count={"minimum": 2})
        for number in (1, 7):
            assert self.refused(world, number, stream) == (
                f"receivers = {number}: must be 2 to 6, as receiver_policy.count of 'clicks' has it"
            )

    def test_a_stream_that_does_not_say_that_its_program_takes_a_number(self, world: World) -> None:
        for stream in (receiving(2), dstream(receivers=2, executor_cores=4)):
            said = self.refused(world, 3, stream)
            assert "give receiver_policy=ReceiverPolicy(count=ReceiverCount(...))" in said
        assert "'clicks' has no receivers" in self.refused(world, 3, dstream())

    def test_as_many_as_take_every_core_that_there_is(self) -> None:
        stream = counting(autoscale=None, executors=1)
        world = World()
        spread_over(world, stream, (2,))
        said = self.refused(world, 4, stream)
        assert said.startswith(
            "receivers = 4: must be at most 3; so many would take every core of 1"
        )

    def test_another_driver_than_was_meant(self, world: World) -> None:
        with pytest.raises(Overtaken):
            carry_out(world, 3, epoch=9, decided=True)
        with pytest.raises(StaleEpoch):
            carry_out(world, 3, epoch=9)
        world.end("clicks")
        with pytest.raises(Overtaken):
            carry_out(world, 3, epoch=1, decided=True)

    def test_a_stop_that_was_asked_for_since_counts_more(self, world: World) -> None:
        now = record(world)
        world.records["clicks"] = replace(
            now, desired="stopped", desired_since=5000.0, revision=now.revision + 1
        )
        with pytest.raises(Refused, match="was asked to stop 4000 s after this was asked for"):
            carry_out(world, 3, asked_at=1000.0)


class TestOfOneThatDoesNotRun:
    def test_a_stopped_stream_has_it_from_its_next_start_on(self, world: World) -> None:
        world.end("clicks", DriverState.STOPPED, drained=True)
        story = carry_out(world, 3)
        assert (story.ending, story.generation) == ("remembered", 1)
        world.run(STREAM)
        assert world.streams["clicks"].settings == {NUMBER: "3", GENERATION: "1"}
        assert carry_out(world, 3).ending == "unchanged"

    @pytest.mark.parametrize("drained", [False, None])
    @pytest.mark.parametrize("state", [DriverState.STOPPED, DriverState.FAILED])
    def test_but_not_one_that_has_something_left(
        self, world: World, state: DriverState, drained: bool | None
    ) -> None:
        world.end("clicks", state, drained=drained)
        with pytest.raises(Refused) as refused:
            carry_out(world, 3)
        assert str(refused.value).startswith(f"'clicks' is {state.value}, and did not end with all")
        assert number_and_generation(world) == (2, 0)
        assert carry_out(world, 3, accept_loss=True).ending == "remembered"

    def test_nor_what_was_asked_for_another_driver(self, world: World) -> None:
        world.end("clicks", DriverState.STOPPED, drained=True)
        with pytest.raises(StaleEpoch, match="asked for driver 7, and driver 1 is stopped by now"):
            carry_out(world, 3, epoch=7)
        assert number_and_generation(world) == (2, 0)

    def test_one_that_was_never_started_begins_as_declared(self) -> None:
        with pytest.raises(Refused, match="'clicks' is not started"):
            carry_out(World(), 3)


def test_what_is_declared_anew_comes_with_a_restart(world: World) -> None:
    """The same way: drained, with a folder of its own, and told."""
    stream = counting(4)
    [said] = start(world, stream, restart=True).dropped
    assert said.startswith("receivers: 4 by what is declared now, but the driver before did not")
    assert world.streams["clicks"].settings == {NUMBER: "2", GENERATION: "0"}
    world.streams["clicks"].drained = True
    [said] = start(world, stream, restart=True).dropped
    assert said == "receivers 2 -> 4, as it is declared now"
    assert world.streams["clicks"].settings == {NUMBER: "4", GENERATION: "1"}
