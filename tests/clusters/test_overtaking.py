"""Which request stands, by what is remembered of those that were carried out."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.errors import Overtaken
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.records.leases import LEASE_SECONDS, Lease, hold, is_held
from dagster_sparkscale.clusters.records.overtaking import (
    CLOCKS_DIFFER,
    Requester,
    noted,
    overtaken,
)
from dagster_sparkscale.clusters.records.store import DurableHold, Record, Submission

ASKED = 1000.0
LATER = ASKED + CLOCKS_DIFFER + 1


def asks(change: str, at: float = ASKED) -> Requester:
    return Requester(f"{change} run 1a2b", change, at)


def after(change: str, at: float = LATER) -> Record:
    """Of a stream of which that was carried out, having been asked for at that time."""
    return replace(Record.new("id"), asked={change: at})


def overtaken_by(record: Record, holder: Requester) -> str | None:
    return overtaken(record, holder, LATER)


@pytest.mark.parametrize(
    ("waited", "by"),
    [
        *(("stop", by) for by in ("start", "restart")),
        *(("stop_orphan", by) for by in ("start", "restart")),
        *((waited, "stop") for waited in ("start", "restart", "rescale", "set_receivers")),
        ("rescale", "stop_orphan"),
        *((same, same) for same in ("restart", "rescale", "set_receivers", "set_limits/a")),
        ("set_limits", "set_limits/a"),
        ("set_limits/a", "set_limits"),
    ],
)
def test_a_later_request_overtakes_it(waited: str, by: str) -> None:
    why = overtaken_by(after(by), asks(waited))
    assert why is not None and why.endswith(
        "was asked for 61 s after this, and was carried out before it"
    )
    assert why.startswith(by.partition("/")[0])
    # As it may be the earlier one, by the clock of another host.
    assert overtaken_by(after(by, LATER - 1), asks(waited)) is None


@pytest.mark.parametrize(
    ("waited", "beside"),
    [
        ("start", "start"),  # it attaches to what runs
        ("start", "rescale"),
        ("stop", "stop"),
        ("stop", "recovery"),
        ("stop", "reconfigure_state"),
        ("stop", "rescale"),
        ("rescale", "start"),
        ("rescale", "set_limits"),
        ("set_limits/a", "set_limits/b"),
        ("retune_backpressure", "verify_retune"),
        ("recovery", "stop"),  # it names the driver that has failed
        ("declare_gone", "stop"),
        ("lift_hold", "stop"),
    ],
)
def test_another_request_does_not(waited: str, beside: str) -> None:
    assert overtaken_by(after(beside), asks(waited)) is None


@pytest.mark.parametrize(
    "waiting", [asks("restart"), replace(asks("rebalance_receivers"), of_one_driver=True)], ids=str
)
def test_a_driver_that_was_started_later_does(waiting: Requester) -> None:
    record = replace(Record.new("id"), epoch=3, history=(Submission(3, LATER, "recovery"),))
    assert overtaken_by(record, waiting) == "driver 3 was started 61 s after this was asked for"
    assert overtaken_by(record, asks("rescale")) is None


def test_a_hold_that_was_set_later_is_not_the_one_to_be_lifted() -> None:
    record = replace(Record.new("id"), hold=DurableHold("you", "this", "that", LATER))
    said = "the hold of you was set 61 s after this was asked for"
    assert overtaken_by(record, asks("lift_hold")) == said


def test_of_two_of_one_kind_the_later_is_remembered() -> None:
    record = noted(noted(Record.new("id"), asks("rescale", 5.0)), asks("stop", 4.0))
    record = noted(record, asks("rescale", 3.0))
    assert record.asked == {"rescale": 5.0, "stop": 4.0}


def test_what_is_remembered_of_a_clock_that_was_ahead_overtakes_nothing() -> None:
    """Else a stream that was stopped then could not be started until that time."""
    now = LATER - CLOCKS_DIFFER
    assert overtaken(after("stop"), asks("start"), now) is not None
    assert overtaken(after("stop"), asks("start"), now - 1) is None
    started = replace(Record.new("id"), epoch=3, history=(Submission(3, LATER, "recovery"),))
    assert overtaken(started, asks("restart"), now - 1) is None


@contextmanager
def unkept(lease: Lease) -> Iterator[None]:
    yield


class TestTheLease:
    @pytest.fixture
    def store(self, tmp_path: Path) -> FolderStore:
        return FolderStore(tmp_path)

    def test_what_only_looks_overtakes_nothing(self, store: FolderStore) -> None:
        with hold(store, "clicks", asks("rescale", LATER), 0.0) as lease:
            lease.renew()
        with hold(store, "clicks", asks("rescale"), 0.0):
            pass

    def test_is_not_given_to_who_was_overtaken(self, store: FolderStore) -> None:
        with hold(store, "clicks", asks("rescale", LATER), 0.0) as lease:
            assert lease.holder == "rescale run 1a2b"
            lease.write(replace(lease.record, executors=3))
        waits = hold(store, "clicks", asks("rescale"), 0.0)
        with pytest.raises(Overtaken, match="'clicks': rescale was asked for 61 s after this"):
            waits.__enter__()
        record = store.read("clicks")
        assert record is not None and record.lease is None and record.operations == 1
        with hold(store, "clicks", "one that goes on", 0.0):
            pass

    def test_nor_to_one_that_is_overtaken_while_it_waits_for_it(self, store: FolderStore) -> None:
        with hold(store, "clicks", asks("stop", LATER), 0.0) as lease:

            def sleep(_seconds: float) -> None:
                lease.write(replace(lease.record, desired="stopped"))
                lease.give_back()

            waits = hold(store, "clicks", asks("rescale"), 60.0, keeping=unkept, sleep=sleep)
            with pytest.raises(Overtaken, match="stop was asked for"):
                waits.__enter__()

    def test_one_look_tells_whether_somebody_holds_it(self, store: FolderStore) -> None:
        assert not is_held(store, "clicks", ASKED)
        with hold(store, "clicks", asks("stop"), 0.0, keeping=unkept) as lease:
            since = lease.record.lease.since  # type: ignore[union-attr]
            silent = since + LEASE_SECONDS + CLOCKS_DIFFER + 1
            assert is_held(store, "clicks", silent - 2)
            assert not is_held(store, "clicks", silent)
            # Of a clock that was hours ahead, and died, it would be held for as long.
            assert not is_held(store, "clicks", since - 3600)
            # One that was held for long is renewed.
            held = replace(lease.record.lease, renewed_at=silent)  # type: ignore[type-var]
            record = replace(lease.record, lease=held, revision=lease.record.revision + 1)
            store.swap("clicks", record)
            assert is_held(store, "clicks", silent)
        store.swap("clicks", replace(record, lease=None, revision=record.revision + 1))
        assert not is_held(store, "clicks", since)

    def test_to_renew_it_says_when(self, store: FolderStore) -> None:
        with hold(store, "clicks", asks("stop"), 0.0, keeping=unkept) as lease:
            began = lease.record.lease
            lease.renew()
            now = lease.record.lease
            assert began is not None and now is not None
            assert began.renewed_at == 0.0 and now.renewed_at >= now.since
