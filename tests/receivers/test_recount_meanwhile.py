"""What others do to a stream between the steps of a change of its receivers' number."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.clusters.errors import ClusterError, StaleEpoch
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import NotDone, Refused
from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dagster_sparkscale.receivers.count import CHANGED, KEPT
from tests.clusters.running import stop
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept
from tests.receivers.recounting import (
    NUMBER,
    STREAM,
    carry_out,
    causes,
    number_and_generation,
)


class TestBeforeItIsPutBack:
    """The driver with the new number ends before its program runs; then somebody is quicker than
    the change, which is about to put the old number back."""

    @pytest.fixture(autouse=True)
    def crashes(self, world: World) -> None:
        def look(kept: Kept) -> None:
            kept.drained = True
            if kept.driver.epoch == 2:
                world.end("clicks")

        world.on_look = look

    def said(self, world: World, meanwhile: Callable[[], Any]) -> str:
        def tell(line: str) -> None:
            if line.startswith("putting back"):
                meanwhile()

        with pytest.raises(NotDone) as failed:
            carry_out(world, 3, tell=tell)
        return str(failed.value)

    def test_a_driver_that_has_ended_keeps_the_number_that_it_ran_with(self, world: World) -> None:
        """What it received is in the checkpoint folder of that number alone."""

        def recovers_and_fails() -> None:
            world.run(STREAM)
            world.end("clicks")

        said = self.said(world, recovers_and_fails)
        assert "3 receivers stay set, as driver 3 runs with them, or has: driver 2 of" in said
        assert number_and_generation(world) == (3, 1)
        assert causes(world) == ["manual", CHANGED, "manual"]

    def test_so_does_one_that_runs(self, world: World) -> None:
        said = self.said(world, lambda: world.run(STREAM))
        assert "3 receivers stay set, as driver 3 runs with them" in said
        assert number_and_generation(world) == (3, 1)
        assert world.streams["clicks"].driver.state is DriverState.RUNNING

    def test_a_stream_that_is_stopped_has_the_old_number_and_stays_stopped(
        self, world: World
    ) -> None:
        said = self.said(world, lambda: stop(world.cluster, "clicks"))
        assert "was not changed: 2 are remembered again, and it was stopped. It failed of" in said
        assert number_and_generation(world) == (2, 0)
        assert causes(world) == ["manual", CHANGED]

    def test_so_has_one_that_is_stopped_before_its_start(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The number is put back already, and the lease free for a moment."""

        def after_a_stop(
            cluster: ClusterManager, stream: Any, requester: Requester, start: Start
        ) -> Any:
            if start.cause == KEPT:
                stop(cluster, "clicks")
            return reconcile(cluster, stream, requester, start)

        monkeypatch.setattr(trial, "reconcile", after_a_stop)
        said = self.said(world, lambda: None)
        assert "was not changed: 2 are remembered again, and it was stopped. It failed of" in said
        assert number_and_generation(world) == (2, 0)
        assert causes(world) == ["manual", CHANGED]

    def test_each_step_says_whose_it_is_and_waits_as_long_as_was_asked_for(
        self, world: World
    ) -> None:
        world.leased.clear()
        with pytest.raises(NotDone, match="driver 3 was started with 2 as before"):
            carry_out(world, 3, lease_wait=7.0)
        assert world.leased == [("the test", 7.0)] * 3

    def test_the_driver_that_comes_is_not_waited_for(self, world: World) -> None:
        """It is recovery's, should it end, as every driver is."""
        world.on_submit = lambda kept: setattr(kept, "queries", ())
        said = self.said(world, lambda: None)
        assert "driver 3 was started with 2 as before" in said

    def test_a_number_that_another_has_set_since_stays(self, world: World) -> None:
        said = self.said(world, lambda: carry_out(world, 5, accept_loss=True))
        assert "was not changed by this run, but by another since. It failed of: driver 2" in said
        assert number_and_generation(world) == (5, 2)
        assert causes(world) == ["manual", CHANGED]


class TestBeforeTheEnd:
    def test_another_driver_than_was_looked_at_is_left_alone(self, world: World) -> None:
        """Another operation has the lease, and restarts the stream before it gives it back."""
        with ExitStack() as other:
            lease = other.enter_context(world.cluster.lease("clicks", "a restart"))

            def restart(stream: str) -> None:
                world.on_wait = lambda stream: None
                world.end("clicks")
                world.submit(STREAM, lease)
                other.close()

            world.on_wait = restart
            with pytest.raises(StaleEpoch, match="asked for driver 1, and driver 2 is running now"):
                carry_out(world, 3)
        assert number_and_generation(world) == (2, 0)
        assert causes(world) == ["manual", "manual"]

    def test_a_restart_that_is_refused_leaves_the_driver_alone(self, world: World) -> None:
        def refuses(stream: object) -> None:
            raise ClusterError("no such program")

        world.on_check = refuses
        lines: list[str] = []
        with pytest.raises(ClusterError, match=r"^no such program$"):
            carry_out(world, 3, lines)
        assert lines == ["before: 2 receivers; setting 3, by a restart"]
        assert number_and_generation(world) == (2, 0)
        assert world.streams["clicks"].driver.epoch == 1

    def test_one_that_was_cut_and_can_not_be_started_has_nothing_to_be_put_back(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuses(*_: object, **__: object) -> None:
            raise ClusterError("no room")

        monkeypatch.setattr("tests.in_memory.cluster.MemoryCluster.submit", refuses)
        world.on_look = lambda kept: setattr(kept, "drained", False)
        lines: list[str] = []
        with pytest.raises(ClusterError, match=r"^no room$"):
            carry_out(world, 3, lines)
        assert lines[1:] == ["driver 1 has ended: cut"]
        assert number_and_generation(world) == (2, 0)


class TestOfOneThatDoesNotRun:
    @pytest.fixture
    def started_first(self, world: World) -> Iterator[None]:
        """Another operation has the lease of the stream, and starts it before it gives it back."""
        world.end("clicks", DriverState.STOPPED, drained=True)
        with ExitStack() as other:
            lease = other.enter_context(world.cluster.lease("clicks", "a start"))

            def start(stream: str) -> None:
                world.on_wait = lambda stream: None
                world.submit(STREAM, lease)
                other.close()

            world.on_wait = start
            yield

    def test_a_number_is_not_remembered_beside_a_driver_that_was_started_meanwhile(
        self, world: World, started_first: None
    ) -> None:
        with pytest.raises(Refused, match="'clicks' was started in the meantime: ask again"):
            carry_out(world, 3)
        assert number_and_generation(world) == (2, 0)
        assert world.streams["clicks"].settings[NUMBER] == "2"

    def test_the_number_that_it_has_already_is_not_remembered_again(self, world: World) -> None:
        world.end("clicks", DriverState.STOPPED, drained=False)
        story = carry_out(world, 2)
        assert (story.ending, story.before, story.wanted) == ("unchanged", 2, 2)
        assert number_and_generation(world) == (2, 0)
