"""The number of receivers is changed: drained, remembered and started."""

import time

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import OperationInProgress, StaleEpoch
from dagster_sparkscale.clusters.requests import NotDone, Refused
from dagster_sparkscale.receivers.count import CHANGED, KEPT
from tests.in_memory.cluster import World
from tests.lifecycle.reconciling import start
from tests.receivers.recounting import (
    GENERATION,
    NUMBER,
    STREAM,
    carry_out,
    causes,
    number_and_generation,
    record,
    starts_its_receivers,
)
from tests.receivers.streams import counting, spread_over


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
        assert story.driver is not None and story.driver.epoch == 1
        assert causes(world) == ["manual"]
        carry_out(world, 3)
        assert carry_out(world, 3).ending == "unchanged"

    def test_nor_where_its_agent_is_silent(self, world: World) -> None:
        world.on_look = lambda kept: setattr(kept, "reachable", False)
        story = carry_out(world, 2)
        assert (story.ending, story.after) == ("unchanged", None)

    def test_it_is_told_how_long_it_took_and_who_declares_the_stream_remembered(
        self, world: World
    ) -> None:
        before = time.monotonic()
        story = carry_out(world, 3, owner="shop/spark_cluster")
        since = time.monotonic() - before
        assert story.seconds is not None and story.still_seconds is not None
        assert 0 <= story.still_seconds <= story.seconds <= since
        assert record(world).owner == "shop/spark_cluster"

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
            carry_out(world, 3, lease_wait=0)
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
            patched.setattr("tests.in_memory.cluster.MemoryCluster.submit", cut)
            with pytest.raises(CutOff):
                carry_out(world, 3)
        world.run(STREAM)
        assert world.streams["clicks"].settings == {NUMBER: "3", GENERATION: "1"}


class TestOfOneThatDoesNotRun:
    def test_a_stopped_stream_has_it_from_its_next_start_on(self, world: World) -> None:
        world.end("clicks", DriverState.STOPPED, drained=True, ending="drained")
        world.leased.clear()
        story = carry_out(world, 3, lease_wait=7.0)
        assert (story.ending, story.generation) == ("remembered", 1)
        assert story.driver is not None and (story.driver.epoch, story.ended) == (1, "drained")
        assert world.leased == [("the test", 7.0)]
        world.run(STREAM)
        assert world.streams["clicks"].settings == {NUMBER: "3", GENERATION: "1"}
        assert carry_out(world, 3).ending == "unchanged"

    @pytest.mark.parametrize("drained", [False, None])
    @pytest.mark.parametrize("state", [DriverState.STOPPED, DriverState.FAILED])
    def test_but_not_one_that_has_something_left(
        self, world: World, state: DriverState, drained: bool | None
    ) -> None:
        ending = None if drained is None else "cut"
        world.end("clicks", state, drained=drained, ending=ending)
        with pytest.raises(Refused) as refused:
            carry_out(world, 3)
        said = str(refused.value)
        assert said.startswith(f"'clicks' is {state.value}, and did not end with all")
        assert f"({ending or 'it has not told how'})" in said
        assert number_and_generation(world) == (2, 0)
        assert carry_out(world, 3, accept_loss=True).ending == "remembered"

    def test_nor_what_was_asked_for_another_driver(self, world: World) -> None:
        world.end("clicks", DriverState.STOPPED, drained=True)
        with pytest.raises(StaleEpoch, match="asked for driver 7, and driver 1 is stopped by now"):
            carry_out(world, 3, epoch=7)
        assert number_and_generation(world) == (2, 0)

    def test_one_that_has_begun_as_declared_has_as_many_as_that(self) -> None:
        world = World()
        spread_over(world, STREAM, (1, 1))
        world.end("clicks", DriverState.STOPPED, drained=True)
        assert record(world).receivers is None
        assert carry_out(world, 2).ending == "unchanged"
        assert (carry_out(world, 3).before, number_and_generation(world)) == (2, (3, 1))

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
