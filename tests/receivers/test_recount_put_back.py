"""A number that fails is put back, unless drivers have run with it."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.requests import NotDone
from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.observe.status import Receiver
from dagster_sparkscale.receivers.count import CHANGED, KEPT
from tests.fakes import batch
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept
from tests.receivers.recounting import (
    GENERATION,
    NUMBER,
    carry_out,
    causes,
    number_and_generation,
    record,
    starts_its_receivers,
)


def crashes(world: World, when: Callable[[Kept], bool]) -> None:
    """Drivers that `when` is so of crash at their first look."""

    def look(kept: Kept) -> None:
        kept.drained = True
        if when(kept):
            kept.log = ["KeyError: 'port 3'"]
            world.end("clicks")

    world.on_look = look


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

        monkeypatch.setattr("tests.in_memory.cluster.MemoryCluster.submit", refuses_three)
        with pytest.raises(NotDone, match="With 3 it failed of: no room"):
            carry_out(world, 3)
        assert number_and_generation(world) == (2, 0)
        assert causes(world) == ["manual", KEPT]

    def test_where_nothing_can_be_launched_the_number_is_the_old_one_all_the_same(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuses(*_: object, **__: object) -> None:
            raise ClusterError("no room")

        monkeypatch.setattr("tests.in_memory.cluster.MemoryCluster.submit", refuses)
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
        world.leased.clear()
        with pytest.raises(NotDone, match="failed of: driver 2, with 3 receivers, has ended"):
            carry_out(world, 3, wait=60, lease_wait=7.0)
        assert world.leased == [("the test", 7.0)] * 3
        assert number_and_generation(world) == (2, 0)

    def test_but_one_whose_query_came_later_has_run(self, world: World) -> None:
        looks = []

        def runs_in_the_end(kept: Kept) -> None:
            kept.drained = True
            if self.with_three(kept):
                looks.append(1)
                kept.queries = (replace(kept.queries[0], active=len(looks) == 3),)
                kept.receivers = ()
                if len(looks) > 4:
                    world.end("clicks")

        world.on_look = runs_in_the_end
        with pytest.raises(NotDone, match="The number stays set"):
            carry_out(world, 3, wait=60)
        assert number_and_generation(world) == (3, 1)

    def test_and_one_that_has_completed_a_batch(self, world: World) -> None:
        """A DStream has no query that could be active."""
        looks = []

        def one_batch(kept: Kept) -> None:
            kept.drained = True
            if self.with_three(kept):
                looks.append(1)
                kept.queries, kept.receivers = (), ()
                kept.batches = (batch(1.0),)
                if len(looks) > 2:
                    world.end("clicks")

        world.on_look = one_batch
        with pytest.raises(NotDone, match="The number stays set"):
            carry_out(world, 3, wait=60)
        assert number_and_generation(world) == (3, 1)

    def test_one_that_was_starting_for_long_has_not(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The manager says at each look that it is starting: so it runs nothing."""
        now = [0.0]
        clock = SimpleNamespace(
            monotonic=lambda: now[0], sleep=lambda _: now.__setitem__(0, now[0] + 2.0)
        )
        monkeypatch.setattr(trial, "time", clock)

        def slowly(kept: Kept) -> None:
            kept.drained = True
            if self.with_three(kept):
                kept.driver = replace(kept.driver, state=DriverState.STARTING, agent_url=None)

        def ends_at_last(stream: str) -> None:
            if now[0] >= 60 and world.streams[stream].driver.epoch == 2:
                world.streams[stream].log = ["no image"]
                world.end(stream)

        world.on_submit, world.on_find = slowly, ends_at_last
        with pytest.raises(NotDone, match=r"with 2 as before\. With 3 it failed") as failed:
            carry_out(world, 3, wait=300)
        assert "Its last log lines:\nno image" in str(failed.value)
        assert number_and_generation(world) == (2, 0)

    def test_nor_one_that_nobody_could_look_at_for_long(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dagster_sparkscale.receivers.recount_follow.BLIND", -1.0)
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

        monkeypatch.setattr("tests.in_memory.cluster.MemoryCluster.submit", says_no)
        with pytest.raises(NotDone, match="3 receivers stay set, as driver 2 runs with them"):
            carry_out(world, 3)
        assert number_and_generation(world) == (3, 1)

    def test_so_does_one_that_came_up_and_ended_while_nobody_could_look(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An outage shows no driver to be starting still."""
        now = [0.0]
        clock = SimpleNamespace(
            monotonic=lambda: now[0], sleep=lambda _: now.__setitem__(0, now[0] + 0.5)
        )
        monkeypatch.setattr(trial, "time", clock)
        looks = []

        def slowly(kept: Kept) -> None:
            kept.drained = True
            if self.with_three(kept):
                kept.driver = replace(kept.driver, state=DriverState.STARTING, agent_url=None)

        def outage(stream: str) -> None:
            if world.streams[stream].driver.epoch < 2:
                return
            looks.append(now[0])
            if len(looks) > 1 and now[0] < 120:  # the first is of the start itself
                raise ClusterError("the API server gives no answer")
            if now[0] >= 120 and world.streams[stream].driver.state.alive:
                world.end(stream)

        world.on_look = lambda kept: setattr(kept, "drained", True)
        world.on_submit, world.on_find = slowly, outage
        with pytest.raises(NotDone, match="The number stays set: the stream's recovery starts it"):
            carry_out(world, 3, wait=300)
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

    def test_whether_a_number_stays_is_not_claimed_while_the_store_is_away(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The new number was never written, and nobody can look whether it was."""
        write, away = Lease.write, []
        world.on_look = lambda kept: setattr(kept, "drained", True)

        def goes_away(lease: Lease, record: Record) -> Record:
            away.extend([1] if record.receivers == 3 else [])
            if away:
                raise ClusterError("no answer")
            return write(lease, record)

        monkeypatch.setattr(Lease, "write", goes_away)
        with pytest.raises(NotDone, match="3 receivers stay set, if they were remembered, as they"):
            carry_out(world, 3)
        assert record(world).receivers != 3

    def test_one_that_somebody_stops_meanwhile_stays_stopped(self, world: World) -> None:
        def stopped(kept: Kept) -> None:
            kept.drained = True
            if self.with_three(kept):
                world.end("clicks", DriverState.STOPPED)

        world.on_look = stopped
        with pytest.raises(NotDone, match=r"driver 2 is stopped now\. The number stays set"):
            carry_out(world, 3)
        assert causes(world) == ["manual", CHANGED]
