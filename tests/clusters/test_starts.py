"""The way of a start through the store: holds, epochs, and one driver a checkpoint."""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.errors import (
    AlreadyRunning,
    ClusterError,
    Held,
    LeaseLost,
    OperationInProgress,
)
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.starts import (
    ATTEMPT,
    Drivers,
    EpochStart,
    attempted,
    begin,
    last_refusal,
    refused,
)
from dagster_sparkscale.clusters.records.store import DurableHold, Record
from dagster_sparkscale.driver.begin.fence import Fence, Mark, Taken
from tests.driver.fenced import Files

PLACE = "file:///data/clicks"


class Side:
    """One Dagster, with what it believes of the drivers that run."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderStore(folder)
        self.running: set[str] = set()
        self.took: set[tuple[str, int]] = set()
        """Streams and epochs of the drivers that have left word of taking their checkpoint."""
        self.borrowed: Callable[[], None] = lambda: None
        """Called when another stream's lease has been borrowed."""

    def lease(self, stream: str) -> AbstractContextManager[Lease]:
        return leases.hold(self.store, stream, f"start of {stream}", 0.0)

    def begin(
        self, lease: Lease, checkpoint: str | None = PLACE, cause: str = "manual"
    ) -> EpochStart:
        return begin(
            self.store, lease, self.drivers(), cause=cause, checkpoint=checkpoint, declared={}
        )

    def drivers(self) -> Drivers:
        def runs(stream: str) -> str | None:
            self.borrowed()
            return "its driver runs" if stream in self.running else None

        return Drivers(runs, lambda *driver: driver in self.took, self.lease)

    def start(
        self, stream: str, checkpoint: str | None = PLACE, cause: str = "manual"
    ) -> EpochStart:
        with self.lease(stream) as lease:
            return self.begin(lease, checkpoint, cause)


@pytest.fixture
def side(tmp_path: Path) -> Side:
    return Side(tmp_path)


def test_only_a_driver_that_has_left_word_is_known_to_have_had_the_checkpoint(side: Side) -> None:
    """The others died before they came so far, were refused, or never launched."""
    first = side.start("clicks")
    assert first.succeeds is None
    for epoch, known in ((1, None), (2, 2), (3, 2), (4, 2), (5, 5)):
        if epoch == known:
            side.took.add(("clicks", epoch))
        expected = None if known is None else (first.record.id, known)
        assert side.start("clicks").succeeds == expected


def test_what_is_known_is_known_of_each_checkpoint_by_itself(side: Side) -> None:
    id = side.start("clicks").record.id
    side.took |= {("clicks", epoch) for epoch in (1, 2, 3, 5)}
    assert side.start("clicks", "file:///test").succeeds is None
    assert side.start("clicks", "file:///test").succeeds == (id, 2)
    assert side.start("clicks", None).record.epoch == 4
    side.took.clear()  # folders of submissions are deleted in the course of time
    assert side.start("clicks").succeeds == (id, 1)
    assert side.start("clicks", "file:///test").succeeds == (id, 3)


@pytest.mark.parametrize("took", [True, False])
def test_a_copy_of_what_is_remembered_never_steps_over_the_originals_mark(
    side: Side, tmp_path: Path, took: bool
) -> None:
    """Whether its starts fail before they come to the checkpoint, or work on another meanwhile."""
    files = Files()

    def drive(on: Side, start: EpochStart) -> None:
        mine = Mark("clicks", start.record.id, start.record.epoch, f"{on}", 1.0, "here")
        tell = partial(on.took.add, ("clicks", start.record.epoch))
        Fence(files, mine, start.succeeds, tell).take()

    drive(side, side.start("clicks"))
    shutil.copytree(side.store.state_dir, tmp_path / "copy")
    copy = Side(tmp_path / "copy")
    copy.took |= side.took
    drive(side, side.start("clicks"))
    original = files.content
    for epoch in (2, 3, 4):
        copy.start("clicks", "file:///test" if took else PLACE)
        if took:
            copy.took.add(("clicks", epoch))
    for _ in range(3):
        with pytest.raises(Taken, match="is this a copy of the machine"):
            drive(copy, copy.start("clicks"))
    assert files.content == original
    drive(side, side.start("clicks"))


def test_each_start_has_the_next_epoch(side: Side) -> None:
    assert [side.start("clicks").record.epoch for _ in range(3)] == [1, 2, 3]
    claim = side.store.claim(PLACE)
    assert claim is not None and claim.stream == "clicks"


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
    side.took.add(("clicks", 1))
    # The first start may have ended before it left its own mark in the checkpoint.
    for _ in range(2):
        assert side.start("renamed").succeeds == (before.id, 1)
    side.running.add("renamed")
    with pytest.raises(AlreadyRunning, match="is that of 'renamed'"):
        side.start("clicks")


@pytest.mark.parametrize("took", [True, False])
def test_a_launch_that_may_happen_after_all_is_barred_once_another_has_its_checkpoint(
    side: Side, took: bool
) -> None:
    """It was told as failed. One that took the checkpoint did happen, and has ended."""
    side.start("clicks")
    side.took |= {("clicks", 1)} if took else set()
    side.start("renamed")
    record = side.store.read("clicks")
    assert record is not None
    by = "" if took else f"'renamed', which has its checkpoint {PLACE} now"
    assert (record.gone, record.gone_by, record.desired) == (0 if took else 1, by, "running")
    assert side.start("clicks").record.epoch == 2


def test_who_took_it_last_is_known_through_all_names_that_never_did(side: Side) -> None:
    first = side.start("clicks").record
    side.took.add(("clicks", 1))
    for name in ("renamed", "again", "clicks", "again"):
        assert side.start(name).succeeds == (first.id, 1)
    side.took.add(("again", 2))
    last = side.store.read("again")
    assert last is not None
    assert side.start("clicks").succeeds == (last.id, 2)


def test_a_start_that_was_cut_off_between_claim_and_epoch_does_not_hide_who_took_it_last(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stream has had the checkpoint before: that driver is not the last one."""
    for name in ("clicks", "renamed"):
        last = side.start(name).record
        side.took.add((name, 1))
    with monkeypatch.context() as cut_off, side.lease("clicks") as lease:
        cut_off.setattr(lease, "write", lambda record: lease.check("the network is gone"))
        with pytest.raises(ClusterError):
            side.begin(lease)
    assert side.start("renamed").succeeds == (last.id, 1)


def test_a_start_that_was_held_up_does_not_hide_who_runs(side: Side) -> None:
    """It claims the checkpoint once more, for an epoch that is long over."""
    held_up = side.lease("clicks")
    lease = held_up.__enter__()
    taken = replace(lease.record, lease=None, revision=lease.record.revision + 1)
    side.store.swap("clicks", taken)
    for _ in range(3):
        side.start("clicks")
    side.running.add("clicks")
    with pytest.raises(LeaseLost):
        side.begin(lease)
    with pytest.raises(AlreadyRunning, match="is that of 'clicks': its driver runs"):
        side.start("renamed")


def test_a_checkpoint_that_its_stream_has_left_is_free(side: Side) -> None:
    side.start("clicks")
    side.start("clicks", "file:///data/elsewhere")
    side.running.add("clicks")
    side.start("orders")


def test_a_claim_that_never_came_to_a_start_bars_nobody(side: Side) -> None:
    """Somebody died between the claim and the epoch."""
    id = side.start("clicks").record.id
    side.took.add(("clicks", 1))
    with side.lease("third") as lease:
        claim = side.store.claim(PLACE)
        assert claim is not None
        mine = replace(claim, stream="third", id=lease.record.id, taken_by=(id, 1))
        side.store.swap_claim(replace(mine, revision=claim.revision + 1))
    side.running.add("third")
    assert side.start("renamed").succeeds == (id, 1)


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
    quicker: list[EpochStart] = []

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
        quicker.append(EpochStart(lease._record))

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
        lease.write(attempted(lease.record, 7.0, "driver 1 failed (exit code 1)"))
        assert [s.cause for s in lease.record.history] == ["manual", ATTEMPT]
        assert lease.record.submitted_at == lease.record.history[0].at
        record = side.begin(lease, cause="recovery").record
    assert [(s.epoch, s.cause) for s in record.history] == [(1, "manual"), (2, "recovery")]
    assert record.submitted_at == record.history[-1].at


def test_why_an_attempt_was_refused_is_kept_in_a_few_words(side: Side) -> None:
    record = attempted(side.start("clicks").record, 7.0, "driver 1 failed")
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
    side.took.add(("clicks", 1))
    shutil.rmtree(side.store.state_dir / "streams" / "clicks")
    assert side.start("renamed").succeeds is None  # nobody knows what became of its driver
    assert side.store.streams() == ["renamed"]
