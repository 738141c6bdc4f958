"""What came of a driver with something new, and the way back: each case that any trial has met."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.requests import NotDone
from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dagster_sparkscale.lifecycle.trial import Followed, PutBack
from tests.clusters.running import stop
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept
from tests.lifecycle.reconciling import STREAM, submissions

AWAY = ClusterError("the API server is away")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes by half a second between two looks."""
    now = [0.0]
    clock = SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda _: now.__setitem__(0, now[0] + 0.5)
    )
    monkeypatch.setattr(trial, "time", clock)
    return now


@pytest.fixture
def world() -> World:
    world = World()
    world.run(STREAM)
    return world


class TestFollow:
    def follow(
        self, world: World, through: Callable[..., bool] = lambda *_: False, **how: Any
    ) -> Followed:
        driver = world.streams["clicks"].driver
        return trial.follow(world.cluster, driver, 10.0, through, **how)

    def test_until_it_is_through(self, world: World, now: list[float]) -> None:
        came = self.follow(world, lambda driver, status: status is not None and now[0] >= 2)
        assert (came.ending, came.driver.epoch, now) == ("through", 1, [2.0])
        assert came.status is not None and came.status.epoch == 1

    def test_no_longer_than_to_the_deadline(self, world: World, now: list[float]) -> None:
        assert (self.follow(world).ending, now) == ("out of time", [10.0])

    @pytest.mark.parametrize("state", [DriverState.FAILED, DriverState.STOPPED])
    def test_one_that_has_ended_is_not_through(
        self, world: World, now: list[float], state: DriverState
    ) -> None:
        def looks(kept: Kept) -> None:
            if now[0] >= 3:
                world.end("clicks", state)

        world.on_look = looks
        came = self.follow(world)
        assert (came.ending, came.driver.state, came.status) == ("ended", state, None)

    def test_nor_is_one_after_which_another_has_come(self, world: World, now: list[float]) -> None:
        def restarts(kept: Kept) -> None:
            world.end("clicks")
            world.run(STREAM)

        world.on_look = restarts
        came = self.follow(world, lambda driver, status: status is not None)
        assert (came.ending, came.driver.epoch) == ("ended", 2)

    @pytest.mark.parametrize("fresh", [False, True])
    def test_an_outage_ends_no_driver(self, world: World, now: list[float], fresh: bool) -> None:
        def away(stream: str) -> None:
            if now[0] < 5:
                raise AWAY

        world.on_find = away
        came = self.follow(world, lambda *_: now[0] >= 6, fresh=fresh)
        assert (came.ending, came.driver.epoch) == ("through", 1)

    def test_another_s_answer_is_none(
        self, world: World, now: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another driver may have its address by now."""
        status = type(world.cluster).status

        def of_another(*given: Any, **how: Any) -> Any:
            return replace(status(*given, **how), epoch=7)

        monkeypatch.setattr(type(world.cluster), "status", of_another)
        assert self.follow(world, lambda driver, status: status is not None).status is None

    def blind(self, world: World, ends_at: float) -> float:
        """Seconds for which nothing was known of a driver that ends then."""

        def ends(stream: str) -> None:
            if trial.time.monotonic() >= ends_at:
                world.end(stream)

        world.on_find = ends
        came = self.follow(world, fresh=True)
        assert came.ending == "ended"
        return came.blind

    def test_who_answers_was_looked_at(self, world: World, now: list[float]) -> None:
        assert self.blind(world, 4.0) == 0.5

    def test_so_was_one_that_the_manager_says_is_starting(
        self, world: World, now: list[float]
    ) -> None:
        kept = world.streams["clicks"]
        kept.driver = replace(kept.driver, state=DriverState.STARTING, agent_url=None)
        assert self.blind(world, 4.0) == 0.5

    def test_but_not_one_that_does_not_answer(self, world: World, now: list[float]) -> None:
        world.streams["clicks"].reachable = False
        assert self.blind(world, 4.0) == 4.0

    def test_an_outage_shows_no_driver_to_be_starting(self, world: World, now: list[float]) -> None:
        kept = world.streams["clicks"]
        kept.driver = replace(kept.driver, state=DriverState.STARTING, agent_url=None)

        def away_and_then_ended(stream: str) -> None:
            if 1 <= now[0] < 8:
                raise AWAY
            if now[0] >= 8:
                world.end(stream)

        world.on_find = away_and_then_ended
        assert self.follow(world, fresh=True).blind == 7.5


class TestPutBack:
    """Driver 1 ran as before; driver 2 was started with something new, and has failed."""

    @pytest.fixture
    def world(self, world: World) -> World:
        world.end("clicks")
        world.run(STREAM)
        world.end("clicks")
        return world

    def put_back(
        self,
        world: World,
        back: Callable[[Record], Record] = lambda record: replace(record, executors=7),
        seen_to_end: bool = True,
        **asking: Any,
    ) -> PutBack:
        requester = Requester("run 1", "restart", **{"asked_at": 1000.0, **asking})
        start = Start(cause="as before", unless_stopped=True, start_wait=0.0)
        return trial.put_back(
            world.cluster, STREAM, requester, 1, back, start, seen_to_end=seen_to_end
        )

    def executors(self, world: World) -> int | None:
        return world.records["clicks"].executors

    def test_what_was_before_is_in_force(self, world: World) -> None:
        came = self.put_back(world, epoch=1)
        assert came.ending == "in force" and came.driver is not None and came.driver.epoch == 3
        assert self.executors(world) == 7
        assert world.records["clicks"].history[-1].cause == "as before"

    def test_nothing_overtakes_it(self, world: World) -> None:
        """It was asked for with what has begun; a restart was since, by somebody else."""
        now = world.records["clicks"]
        world.records["clicks"] = replace(now, asked={"restart": 5000.0})
        assert self.put_back(world).ending == "in force"

    def test_a_driver_that_lives_keeps_what_it_was_started_with(self, world: World) -> None:
        """As one that a recovery has started just now."""
        world.run(STREAM)
        came = self.put_back(world)
        assert came.ending == "lives" and came.driver is not None and came.driver.epoch == 3
        assert self.executors(world) != 7

    def test_so_may_one_that_can_not_be_looked_at(self, world: World) -> None:
        def away(stream: str) -> None:
            raise AWAY

        world.on_find = away
        came = self.put_back(world, seen_to_end=False)
        assert (came.ending, came.error) == ("not known", AWAY)
        assert self.executors(world) != 7

    @pytest.mark.parametrize("seen_to_end", [True, False])
    def test_so_may_one_of_which_nothing_is_known(self, world: World, seen_to_end: bool) -> None:
        world.run(STREAM)
        world.end("clicks", DriverState.UNKNOWN)
        came = self.put_back(world, seen_to_end=seen_to_end)
        assert (came.ending, str(came.error)) == ("not known", "driver 3 is unknown")
        assert self.executors(world) != 7

    def test_but_an_outage_hides_none_that_was_seen_to_end(self, world: World) -> None:
        looks = []

        def away_at_first(stream: str) -> None:
            looks.append(stream)
            if len(looks) == 1:
                raise AWAY

        world.on_find = away_at_first
        assert self.put_back(world).ending == "in force"

    def test_the_driver_of_before_goes_on(self) -> None:
        """It could not be ended: the trial has not begun."""
        world = World()
        world.run(STREAM)
        came = self.put_back(world, seen_to_end=False)
        assert came.ending == "in force" and came.driver is not None and came.driver.epoch == 1
        assert len(submissions(world)) == 1 and self.executors(world) == 7

    def test_what_it_refuses_to_put_back_stays(self, world: World) -> None:
        def refuses(record: Record) -> Record:
            raise NotDone("another has set it since")

        with pytest.raises(NotDone, match="another has set it since"):
            self.put_back(world, refuses)
        assert len(submissions(world)) == 2 and world.records["clicks"].lease is None

    def test_a_stream_that_was_stopped_stays_so(self, world: World) -> None:
        stop(world.cluster, "clicks")
        assert self.put_back(world) == PutBack("stopped")
        assert (len(submissions(world)), self.executors(world)) == (2, 7)

    def test_also_one_that_is_stopped_between_the_leases(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def after_a_stop(cluster: ClusterManager, *given: Any) -> Any:
            stop(cluster, "clicks")
            return reconcile(cluster, *given)

        monkeypatch.setattr(trial, "reconcile", after_a_stop)
        assert self.put_back(world) == PutBack("stopped")
        assert (len(submissions(world)), self.executors(world)) == (2, 7)

    def test_where_nobody_can_have_the_lease_nothing_is_remembered(self, world: World) -> None:
        with world.cluster.lease("clicks", "somebody"):
            came = self.put_back(world, lease_wait=0.0)
        assert came.ending == "not remembered"
        assert "somebody has held 'clicks'" in str(came.error)
        assert self.executors(world) != 7

    def test_a_start_that_fails_too_has_it_remembered(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refused = ClusterError("no room")

        def refuses(*_: object, **__: object) -> None:
            raise refused

        monkeypatch.setattr("tests.in_memory.cluster.MemoryCluster.submit", refuses)
        assert self.put_back(world) == PutBack("start failed", error=refused)
        assert self.executors(world) == 7
