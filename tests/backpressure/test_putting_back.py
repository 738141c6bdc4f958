"""What was in force before is put back, and a stream is started with it. Without Dagster."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.backpressure.apply import CAUSE, Applied, start_again
from dagster_sparkscale.backpressure.retune import put_back
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import StaleEpoch
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Tuning
from dagster_sparkscale.clusters.requests import Refused
from tests.backpressure.applied import (
    STREAM,
    carry_out,
    causes,
    record,
    running,
    write,
)
from tests.backpressure.retuning import SETTING, tuned_before
from tests.in_memory.cluster import World


@pytest.fixture
def world() -> World:
    return running()


class TestStartedAgain:
    def test_it_has_what_is_remembered(self, world: World) -> None:
        failed = world.end("clicks")
        write(world, tuning=tuned_before(STREAM))
        world.leased.clear()
        lines: list[str] = []
        requester = Requester(
            "run 1", owner="shop/spark_cluster", lease_wait=7.0, tell=lines.append
        )
        before = time.monotonic()
        story = start_again(world.cluster, STREAM, failed, requester)
        assert story.driver is not None and (story.driver.epoch, story.how) == (2, "restart")
        assert 0 <= story.seconds <= time.monotonic() - before
        assert (lines, causes(world)) == (["driver 2 was started with them"], ["manual", CAUSE])
        assert (world.leased, record(world).owner) == ([("run 1", 7.0)], "shop/spark_cluster")
        assert world.streams["clicks"].settings == {SETTING: "9000"}

    def test_not_where_another_driver_has_come_since(self, world: World) -> None:
        failed = world.end("clicks")
        world.run(STREAM)
        with pytest.raises(StaleEpoch, match="asked for driver 1, and driver 2 is running"):
            start_again(world.cluster, STREAM, failed, Requester("me"))

    def test_nor_where_it_was_asked_to_stop_since(self, world: World) -> None:
        failed = world.end("clicks")
        write(world, desired="stopped", desired_since=5000.0)
        lines: list[str] = []
        before = time.monotonic()
        story = start_again(world.cluster, STREAM, failed, Requester("run 1", tell=lines.append))
        assert 0 <= story.seconds <= time.monotonic() - before
        assert (story.driver, story.how, causes(world)) == (failed, "start", ["manual"])
        assert len(lines) == 1 and "was asked to stop: materialize" in lines[0]


class TestPutBack:
    def put_back(self, world: World, tell: Callable[[str], None], **more: Any) -> Applied:
        requester = Requester("run 2", lease_wait=7.0, tell=tell)
        return put_back(world.cluster, STREAM, requester, **{"now": 9000.0, **more})

    def test_of_one_that_does_not_run_it_is_remembered(self, world: World) -> None:
        carry_out(world)
        world.end("clicks", DriverState.STOPPED)
        world.leased.clear()
        lines: list[str] = []
        story = self.put_back(world, lines.append)
        assert (story.how, story.seconds, story.verify_at) == ("start", 0.0, None)
        assert world.leased == [("run 2", 7.0)]
        back = record(world).tuning
        assert back is not None and (back.settings, back.by, back.at) == ({}, "run 2", 9000.0)
        assert (back.by_hand, back.put_back, back.outcome) == (True, True, "put back by hand")
        assert lines == ["'clicks' is stopped: its next start has the limits of before"]

    def test_one_that_has_failed_is_started_only_for_the_harm_that_was_done(
        self, world: World
    ) -> None:
        carry_out(world)
        world.end("clicks")
        assert self.put_back(world, print).how == "start"
        assert causes(world) == ["manual", CAUSE]
        write(world, tuning=tuned_before(STREAM))
        assert self.put_back(world, print, why="slow").how == "restart"
        assert causes(world) == ["manual", CAUSE, CAUSE]
        back = record(world).tuning
        assert back is not None and (back.by_hand, back.outcome) == (False, "put back: slow")

    def test_what_another_has_tuned_is_no_harm_of_it(self, world: World) -> None:
        carry_out(world)
        ours = record(world).tuning
        theirs: Tuning = tuned_before(STREAM, by="run 3")
        write(world, tuning=theirs)
        with pytest.raises(Refused, match="was tuned by run 3 in the meantime"):
            self.put_back(world, print, expected=ours, why="slow")
        assert record(world).tuning == theirs

    def test_nor_is_what_is_tuned_while_its_driver_is_asked(self, world: World) -> None:
        carry_out(world)
        theirs = tuned_before(STREAM, by="run 3")
        world.on_look = lambda kept: (
            write(world, tuning=theirs) if record(world).tuning != theirs else None
        )
        with pytest.raises(Refused, match="was tuned by run 3 in the meantime"):
            self.put_back(world, print)
        assert (record(world).tuning, causes(world)) == (theirs, ["manual", CAUSE])

    def test_nor_what_is_tuned_while_the_lease_is_waited_for(self, world: World) -> None:
        carry_out(world)
        world.end("clicks", DriverState.STOPPED)
        theirs = tuned_before(STREAM, by="run 3")
        with ExitStack() as other:
            lease = other.enter_context(world.cluster.lease("clicks", "somebody"))

            def tunes(stream: str) -> None:
                lease.write(replace(lease.record, tuning=theirs))
                other.close()
                world.on_wait = lambda stream: None

            world.on_wait = tunes
            with pytest.raises(Refused, match="was tuned by run 3 in the meantime"):
                self.put_back(world, print)
        assert record(world).tuning == theirs

    def test_nothing_is_what_was_never_tuned(self, world: World) -> None:
        write(world, tuning=Tuning({}, by="", at=0.0))
        with pytest.raises(Refused, match="nothing of it was tuned that could be put back"):
            self.put_back(world, print)
