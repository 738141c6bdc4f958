"""The way of a start through the store: holds, epochs, and one driver a checkpoint."""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_sparkscale.clusters import leases
from dagster_sparkscale.clusters.errors import AlreadyRunning, Held, LeaseLost, OperationInProgress
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.leases import Lease
from dagster_sparkscale.clusters.starts import (
    ATTEMPT,
    Others,
    Start,
    attempted,
    begin,
    last_refusal,
    refused,
)
from dagster_sparkscale.clusters.store import DurableHold, Record

PLACE = "file:///data/clicks"


class Side:
    """One Dagster, with what it believes of the drivers that run."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderStore(folder)
        self.running: set[str] = set()
        self.borrowed: Callable[[], None] = lambda: None
        """Called when another stream's lease has been borrowed."""

    def lease(self, stream: str) -> AbstractContextManager[Lease]:
        return leases.hold(self.store, stream, f"start of {stream}", 0.0)

    def begin(self, lease: Lease, checkpoint: str | None = PLACE, cause: str = "manual") -> Start:
        return begin(
            self.store, lease, self.others(), cause=cause, checkpoint=checkpoint, declared={}
        )

    def others(self) -> Others:
        def runs(stream: str) -> str | None:
            self.borrowed()
            return "its driver runs" if stream in self.running else None

        return Others(runs, self.lease)

    def start(self, stream: str, checkpoint: str | None = PLACE, cause: str = "manual") -> Start:
        with self.lease(stream) as lease:
            return self.begin(lease, checkpoint, cause)


@pytest.fixture
def side(tmp_path: Path) -> Side:
    return Side(tmp_path)


def test_a_start_that_was_refused_by_the_checkpoint_does_not_count_as_one_that_had_it(
    side: Side,
) -> None:
    assert side.start("clicks").record.known_epoch == 0
    with side.lease("clicks") as lease:
        for fenced, known in ((False, 1), (True, 1), (True, 1), (False, 4)):
            start = begin(
                side.store,
                lease,
                side.others(),
                cause="manual",
                checkpoint=PLACE,
                declared={},
                fenced=fenced,
            )
            assert start.record.known_epoch == known


def test_each_start_has_the_next_epoch(side: Side) -> None:
    assert [side.start("clicks").record.epoch for _ in range(3)] == [1, 2, 3]
    claim = side.store.claim(PLACE)
    assert claim is not None and (claim.stream, claim.epoch) == ("clicks", 3)


def test_a_stream_of_another_name_may_not_have_the_checkpoint_of_one_that_runs(side: Side) -> None:
    side.start("clicks")
    side.running.add("clicks")
    with pytest.raises(AlreadyRunning, match="is that of 'clicks': its driver runs"):
        side.start("renamed")
    record = side.store.read("renamed")
    assert record is not None and record.epoch == 0


def test_the_refusal_names_who_started_the_other_where_that_is_known(side: Side) -> None:
    side.start("clicks")
    side.running.add("clicks")
    with pytest.raises(AlreadyRunning, match=r"its driver runs\. Two drivers on one"):
        side.start("renamed")
    with side.lease("clicks") as lease:
        lease.write(replace(lease.record, owner="web/spark"))
    whose = "its driver runs, started by code location 'web', cluster 'spark'"
    with pytest.raises(AlreadyRunning, match=whose):
        side.start("renamed")


def test_it_may_once_that_one_has_ended_and_knows_after_whom(side: Side) -> None:
    before = side.start("clicks").record
    # The first start may have ended before it left its own mark in the checkpoint.
    for _ in range(2):
        assert side.start("renamed").succeeds == (before.id, 1)
    side.running.add("renamed")
    with pytest.raises(AlreadyRunning, match="is that of 'renamed'"):
        side.start("clicks")


def test_a_checkpoint_that_its_stream_has_left_is_free(side: Side) -> None:
    side.start("clicks")
    side.start("clicks", "file:///data/elsewhere")
    side.running.add("clicks")
    side.start("orders")


def test_a_claim_that_never_came_to_a_start_bars_nobody(side: Side, tmp_path: Path) -> None:
    """Somebody died between the claim and the epoch."""
    side.start("clicks")
    claim = side.store.claim(PLACE)
    assert claim is not None
    side.store.swap_claim(replace(claim, epoch=2, revision=claim.revision + 1))
    assert side.start("renamed").record.epoch == 1


def test_while_another_stream_is_being_started_its_checkpoint_is_not_taken(side: Side) -> None:
    side.start("clicks")
    with (
        side.lease("clicks"),
        pytest.raises(OperationInProgress, match="start of clicks has held 'clicks'"),
    ):
        side.start("renamed")


def test_of_two_that_want_a_free_checkpoint_at_once_one_gets_it(side: Side) -> None:
    side.start("clicks")
    other = Side(side.store.state_dir)
    quicker: list[Start] = []

    def overtake() -> None:
        # Right between the look and the claim. The lease of `clicks` is held, so the way that a
        # quicker one has is a claim of its own.
        side.borrowed = lambda: None
        claim = side.store.claim(PLACE)
        assert claim is not None
        with other.lease("third") as lease:
            other.store.swap_claim(
                replace(claim, stream="third", id=lease.record.id, revision=claim.revision + 1)
            )
        quicker.append(Start(lease._record))

    side.borrowed = overtake
    with pytest.raises(AlreadyRunning, match="was claimed by another start at this moment"):
        side.start("renamed")
    assert quicker


def test_a_start_that_lost_its_lease_gets_no_epoch(side: Side) -> None:
    with side.lease("clicks") as lease:
        stolen = replace(lease.record, lease=None, revision=lease.record.revision + 1)
        side.store.swap("clicks", stolen)
        with pytest.raises(LeaseLost):
            side.begin(lease, checkpoint=None)
    record = side.store.read("clicks")
    assert record is not None and record.epoch == 0


def test_a_durable_hold_bars_every_start_and_says_how_it_ends(side: Side) -> None:
    hold = DurableHold("reconfigure run 1a2b", "rewriting state", "run it again", 5.0)
    with side.lease("clicks") as lease:
        lease.write(replace(lease.record, hold=hold))
    with pytest.raises(Held) as caught:
        side.start("clicks")
    assert str(caught.value) == (
        "'clicks' is held by reconfigure run 1a2b, in the middle of: rewriting state. It can't be "
        "started before that is finished or undone: run it again"
    )
    with side.lease("clicks") as lease:
        lease.write(replace(lease.record, hold=None))
    side.start("clicks")


def test_a_recovery_that_comes_to_a_launch_takes_the_place_of_its_attempt(side: Side) -> None:
    side.start("clicks")
    with side.lease("clicks") as lease:
        lease.write(attempted(lease.record, 7.0))
        assert [s.cause for s in lease.record.history] == ["manual", ATTEMPT]
        assert lease.record.submitted_at == lease.record.history[0].at
        record = side.begin(lease, cause="recovery").record
    assert [(s.epoch, s.cause) for s in record.history] == [(1, "manual"), (2, "recovery")]
    assert record.submitted_at == record.history[-1].at


def test_why_an_attempt_was_refused_is_kept_in_a_few_words(side: Side) -> None:
    record = attempted(side.start("clicks").record, 7.0)
    kept = refused(record, "no\n  master").history[-1]
    assert (kept.cause, kept.at, kept.error) == (ATTEMPT, 7.0, "no master")
    assert refused(record, "x" * 500).history[-1].error == "x" * 500
    assert refused(record, "x" * 501).history[-1].error == "x" * 497 + "..."


def test_a_start_by_a_person_has_its_refusal_in_its_own_run(side: Side) -> None:
    record = side.start("clicks").record
    assert refused(record, "no master") is record
    assert refused(Record.new("a"), "no master").history == ()
    assert last_refusal(()) is None


def test_a_claim_of_a_stream_that_was_forgotten_makes_no_ghost_of_it(side: Side) -> None:
    side.start("clicks")
    shutil.rmtree(side.store.state_dir / "streams" / "clicks")
    assert side.start("renamed").succeeds is None
    assert side.store.streams() == ["renamed"]
