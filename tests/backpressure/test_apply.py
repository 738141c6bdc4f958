"""How other limits get into force, and what others do between the steps of it. Without Dagster."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dagster_sparkscale.backpressure import apply, set_limits
from dagster_sparkscale.backpressure.apply import CAUSE
from dagster_sparkscale.backpressure.fallback import go_back
from dagster_sparkscale.backpressure.preflight import look
from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.clusters.errors import ClusterError, Overtaken, StaleEpoch
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Tuning
from dagster_sparkscale.clusters.requests import NotDone, Refused
from dagster_sparkscale.in_force.tuned import declared_limits
from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dagster_sparkscale.observe.status import Limit
from dagster_sparkscale.remedy import Remedy, WithRemedy
from tests.backpressure.applied import (
    LIVE,
    STREAM,
    carry_out,
    causes,
    record,
    running,
    settings,
    write,
)
from tests.backpressure.retuning import KNOB, SETTING, tuned_before
from tests.clusters.running import stop
from tests.fakes import QUERY, batch
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept


@pytest.fixture
def world() -> World:
    return running()


class TestInWhoseName:
    def test_a_restart_is_one_of_whoever_asks(self, world: World) -> None:
        world.leased.clear()
        lines: list[str] = []
        story = carry_out(world, tell=lines.append, lease_wait=7.0, owner="shop/spark_cluster")
        assert world.leased == [("run 1", 7.0)]
        assert (record(world).owner, causes(world)) == ("shop/spark_cluster", ["manual", CAUSE])
        assert lines == ["driver 2 was started with these limits"]
        assert story.driver is not None and (story.driver.epoch, story.how) == (2, "restart")

    def test_so_is_a_limit_that_is_set_while_it_runs(self) -> None:
        world = World()
        world.run(LIVE)
        world.leased.clear()
        lines: list[str] = []
        values = {"backpressure.max_rate": 1000.0}
        before = time.monotonic()
        story = carry_out(world, LIVE, values, lines.append, lease_wait=7.0)
        assert 0 <= story.seconds <= time.monotonic() - before
        assert world.leased == [("run 1", 7.0)]
        assert story.driver is not None and (story.driver.epoch, story.how) == (1, "live")
        assert len(lines) == 1 and lines[0].startswith("limits set: {")

    def test_what_waits_for_a_start_says_so(self) -> None:
        world = World()
        world.run(LIVE)
        lines: list[str] = []
        carry_out(world, LIVE, {"backpressure.initial_rate": 300.0}, lines.append)
        assert lines == ["remembered for the next start"]

    def test_the_way_back_is_so_too(self, world: World) -> None:
        world.on_submit = fails_on(world, {SETTING: "9000"})
        world.leased.clear()
        with pytest.raises(NotDone, match="those of before are in force again"):
            carry_out(world, lease_wait=7.0, owner="shop/spark_cluster")
        assert world.leased == [("run 1", 7.0)] * 3
        assert causes(world) == ["manual", CAUSE, CAUSE]


def fails_on(world: World, bad: dict[str, str]) -> Callable[[Kept], None]:
    def launched(kept: Kept) -> None:
        kept.batch_seconds = 1.0
        if kept.settings == bad:
            kept.log = ["out of memory"]
            world.end("clicks")

    return launched


class TestAfterTheLook:
    """Others are quicker than who has looked at the stream."""

    def test_a_stop_that_was_asked_for_later_counts_more(self, world: World) -> None:
        def stops() -> None:
            write(world, desired="stopped", asked={"stop": 5000.0})

        asked = Requester("retune run 1", "retune_backpressure", 1000.0)
        with pytest.raises(Overtaken, match="stop was asked for 4000 s after this"):
            carry_out(world, meanwhile=stops, requester=asked)
        assert (settings(world), causes(world)) == (None, ["manual"])

    def test_another_driver_is_not_restarted(self, world: World) -> None:
        def restarts() -> None:
            world.end("clicks")
            world.run(STREAM)

        with pytest.raises(StaleEpoch, match="asked for driver 1, and driver 2 is running now"):
            carry_out(world, meanwhile=restarts)
        assert (settings(world), causes(world)) == (None, ["manual", "manual"])

    def test_nor_is_one_limited_while_it_runs(self) -> None:
        world = World()
        world.run(LIVE)

        def restarts() -> None:
            world.end("clicks")
            world.run(LIVE)

        with pytest.raises(StaleEpoch, match="at epoch 2; the driver of epoch 1 is gone"):
            carry_out(world, LIVE, {"backpressure.max_rate": 1000.0}, meanwhile=restarts)
        assert (settings(world), record(world).rates) == (None, None)

    @pytest.mark.parametrize("stream", [STREAM, LIVE], ids=["by a restart", "live"])
    def test_what_another_has_tuned_stays(self, stream: Any) -> None:
        world = World(on_submit=lambda kept: setattr(kept, "batch_seconds", 1.0))
        world.run(stream)
        theirs = tuned_before(stream, settings={}, by="run 2")
        values = {KNOB: 9000.0} if stream is STREAM else {"backpressure.max_rate": 1000.0}
        with pytest.raises(Refused, match="was tuned by run 2 in the meantime: nothing was done"):
            carry_out(world, stream, values, meanwhile=lambda: write(world, tuning=theirs))
        assert (record(world).tuning, causes(world)) == (theirs, ["manual"])

    @pytest.mark.parametrize(("now", "whose"), [(None, "nobody"), ("", "a start")])
    def test_who_it_was_is_told(self, world: World, now: str | None, whose: str) -> None:
        theirs = None if now is None else tuned_before(STREAM, by=now)
        write(world, tuning=tuned_before(STREAM, settings={SETTING: "7000"}))
        with pytest.raises(Refused, match=f"was tuned by {whose} in the meantime"):
            carry_out(world, meanwhile=lambda: write(world, tuning=theirs))


class TestBeforeItIsPutBack:
    """A start with these limits has failed; then somebody is quicker than the way back."""

    def said(self, world: World, meanwhile: Callable[[], Any], **more: Any) -> str:
        world.on_submit = fails_on(world, {SETTING: "9000"})

        def tell(line: str) -> None:
            if line.startswith("a start with these limits failed, those of before are put back"):
                meanwhile()

        with pytest.raises(NotDone) as failed:
            carry_out(world, tell=tell, **more)
        return str(failed.value)

    def test_nobody_was(self, world: World) -> None:
        said = self.said(world, lambda: None)
        assert "those of before are in force again. It failed of: driver 2 of 'clicks'" in said
        assert "out of memory" in said
        assert causes(world) == ["manual", CAUSE, CAUSE]
        declared = declared_limits(STREAM)
        assert record(world).tuning == Tuning({}, by="", at=0.0, declared=declared)

    def test_what_another_has_tuned_stays(self, world: World) -> None:
        theirs = tuned_before(STREAM, by="run 2", settings={SETTING: "7000"})
        said = self.said(world, lambda: write(world, tuning=theirs))
        assert "and others were set in the meantime. It failed of: driver 2 of 'clicks'" in said
        assert record(world).tuning == theirs
        assert causes(world) == ["manual", CAUSE]

    def test_what_a_person_is_to_do_about_the_start_stays_data(self, world: World) -> None:
        error = NotDone(WithRemedy("it is held: ", Remedy.STOP))
        other = tuned_before(STREAM, by="run 2", settings={SETTING: "7000"})
        looked = look(world.cluster, STREAM, Requester("a test"), [], None, now=time.time())
        with pytest.raises(NotDone, match="others were set in the meantime") as failed:
            go_back(world.cluster, STREAM, looked, other, error, Requester("a test"))
        assert WithRemedy(str(failed.value)).advises

    def test_a_limit_that_a_person_sets_meanwhile_stands_and_bars_no_way_back(self) -> None:
        world = World(on_submit=lambda kept: setattr(kept, "limits", (Limit("clicks", QUERY),)))
        kept = world.run(LIVE)
        kept.limits, kept.batch_seconds = (Limit("clicks", QUERY),), 1.0
        carry_out(world, LIVE, {"backpressure.max_rate": 1000.0})
        assert record(world).rates == {"clicks": {"maxRate": 1000}}

        def tell(line: str) -> None:
            if line == "driver 2 was started with these limits":
                asked = set_limits.LimitsRequest(rate=50, wait=0)
                set_limits.set_limits(world.cluster, LIVE, asked, Requester("run 2"))
                world.end("clicks")

        with pytest.raises(NotDone, match="those of before are in force again"):
            carry_out(world, LIVE, {"backpressure.max_rate": 9000.0}, tell=tell)
        assert record(world).rates == world.streams["clicks"].rates == {"clicks": {"maxRate": 50}}
        assert settings(world) == {} and causes(world) == ["manual", CAUSE, CAUSE]

    def test_a_stream_that_is_stopped_stays_so(self, world: World) -> None:
        said = self.said(world, lambda: stop(world.cluster, "clicks"))
        assert "those of before are remembered; it was stopped in the meantime. It failed" in said
        assert (settings(world), causes(world)) == ({}, ["manual", CAUSE])
        assert world.streams["clicks"].driver.state is DriverState.STOPPED

    def test_also_one_that_is_stopped_between_the_leases(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was before is remembered already, and the lease free for a moment."""

        def after_a_stop(
            cluster: ClusterManager, stream: Any, requester: Requester, start: Start
        ) -> Any:
            if not start.restart:
                stop(cluster, "clicks")
            return reconcile(cluster, stream, requester, start)

        monkeypatch.setattr(trial, "reconcile", after_a_stop)
        said = self.said(world, lambda: None)
        assert "those of before are remembered; it was stopped in the meantime. It failed" in said
        assert (settings(world), causes(world)) == ({}, ["manual", CAUSE])

    def test_what_a_recovery_has_started_with_them_keeps_them(self, world: World) -> None:
        """It came up, at last: its limits are not put back behind its back."""

        def recovers() -> None:
            world.on_submit = lambda kept: setattr(kept, "batch_seconds", 1.0)
            world.run(STREAM)

        said = self.said(world, recovers)
        assert said.startswith("'clicks': these limits stay set: driver 3 has them, though its st")
        assert settings(world) == {SETTING: "9000"}

    def test_where_nobody_can_have_the_lease_they_stay(self, world: World) -> None:
        held = contextlib.ExitStack()
        with held:
            said = self.said(
                world,
                lambda: held.enter_context(world.cluster.lease("clicks", "somebody")),
                lease_wait=0.0,
            )
        assert "these limits stay set, as they could not be put back: " in said
        assert settings(world) == {SETTING: "9000"}

    def test_one_that_runs_by_then_is_not_started_twice(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its recovery was quicker, and has what was before."""

        def after_a_recovery(
            cluster: ClusterManager, stream: Any, requester: Requester, start: Start
        ) -> Any:
            if not start.restart:
                world.run(STREAM)
            return reconcile(cluster, stream, requester, start)

        monkeypatch.setattr(trial, "reconcile", after_a_recovery)
        self.said(world, lambda: None)
        assert causes(world) == ["manual", CAUSE, "manual"]

    def test_by_itself_it_is_not_tried_again_soon(self, world: World) -> None:
        """What a person has said is not remembered so: it is told at once."""
        before = time.time()
        seven = {SETTING: "7000"}
        write(world, tuning=tuned_before(STREAM, settings=seven, verify_at=before, by="run 0"))
        requester = Requester("run 1")
        looked = look(world.cluster, STREAM, requester, [], {KNOB: 9000.0}, now=time.time())
        theirs = tuned_before(STREAM, settings={SETTING: "9000"}, verify_at=9.0)
        world.on_submit = fails_on(world, {SETTING: "9000"})
        with pytest.raises(NotDone):
            apply.apply(world.cluster, STREAM, looked, theirs, "restart", requester)
        back = record(world).tuning
        assert back is not None
        assert (back.settings, back.by, back.verify_at) == (seven, "run 1", None)
        assert back.put_back
        assert back.outcome.startswith("put back: a start failed: driver 2 of 'clicks' ended")
        assert "\n" not in back.outcome and back.declared == theirs.declared
        assert before <= back.at <= time.time()


class TestItsFirstBatch:
    """A driver with other limits is followed until a batch is through, or it is of no use."""

    def follows(self, world: World, *looks: Callable[[Kept], None]) -> Iterator[Any]:
        steps = iter(looks)

        def look(kept: Kept) -> None:
            if kept.driver.epoch == 2 and (step := next(steps, None)):
                step(kept)

        world.on_look = look
        return steps

    def test_one_that_failed_is_none(self, world: World) -> None:
        """After that it ends: its limits are put back."""
        world.on_submit = lambda kept: None
        bad, good = batch(1.0, failed=True), batch(1.0)
        self.follows(
            world,
            lambda kept: None,
            lambda kept: setattr(kept, "batches", (bad,)),
            lambda kept: setattr(kept, "log", ["out of memory"]) or world.end("clicks"),
            lambda kept: setattr(kept, "batches", (good,)),
        )
        with pytest.raises(NotDone, match=r"(?s)before its first batch was through.*out of memory"):
            carry_out(world)

    def test_that_none_comes_in_time_is_said(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(apply, "FOLLOW", 0.0)
        world.on_submit = lambda kept: setattr(kept, "batches", ())
        lines: list[str] = []
        carry_out(world, tell=lines.append)
        assert lines[-1] == "driver 2 has completed no batch in 0 s: it keeps these limits"

    def test_a_good_one_is_enough(self, world: World) -> None:
        world.on_submit = lambda kept: None
        bad, good = batch(1.0, failed=True), batch(1.0)
        left = self.follows(
            world,
            lambda kept: None,
            lambda kept: setattr(kept, "batches", (bad,)),
            lambda kept: setattr(kept, "batches", (bad, good)),
            lambda kept: world.end("clicks"),
        )
        carry_out(world)
        assert len(list(left)) == 1, "it was not looked at any more"

    def test_a_driver_that_another_one_has_followed_is_followed_no_longer(
        self, world: World
    ) -> None:
        def restarts(kept: Kept) -> None:
            world.end("clicks")
            world.run(STREAM)
            world.end("clicks")

        world.on_submit = lambda kept: None
        self.follows(world, lambda kept: None, restarts)
        story = carry_out(world)
        assert story.driver is not None and story.driver.epoch == 2
        assert causes(world) == ["manual", CAUSE, "manual"]


def test_an_outage_hides_no_driver_that_was_seen_to_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its limits are put back: nothing runs with them."""
    looks = []

    def ends_at_the_second_look(kept: Kept) -> None:
        if kept.driver.epoch == 2:
            looks.append(1)
            if len(looks) == 2:
                world.end("clicks")

    world.on_submit = lambda kept: setattr(kept, "batches", ())
    world.on_look = ends_at_the_second_look
    lives = trial._lives

    def away(cluster: ClusterManager, stream: str) -> None:
        raise ClusterError("the API server is away")

    def in_an_outage(*given: Any) -> Any:
        with monkeypatch.context() as outage:
            outage.setattr("tests.in_memory.cluster.MemoryCluster.find", away)
            return lives(*given)

    monkeypatch.setattr(trial, "_lives", in_an_outage)
    with pytest.raises(NotDone, match="those of before are in force again"):
        carry_out(world)
    assert (settings(world), causes(world)) == ({}, ["manual", CAUSE, CAUSE])
