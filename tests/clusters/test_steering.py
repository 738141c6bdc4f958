"""The steering in a record: what one change leaves, and that none is lost beside an operation."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dagster_sparkscale import typed_json
from dagster_sparkscale.clusters.errors import ClusterError, LeaseLost
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.records.leases import hold, steer
from dagster_sparkscale.clusters.records.steering import (
    EFFECT,
    KEPT,
    KINDS,
    Entries,
    Steered,
    newest,
    resumed,
    standing,
    with_entry,
)
from dagster_sparkscale.clusters.records.store import Conflict, Record
from tests.clusters.test_leases import Time, unkept

NOW = 1_000_000.0
KEYS = (*KINDS, EFFECT)

times = st.floats(NOW - 3 * KEPT, NOW + 3 * KEPT)
steered = st.builds(
    Steered,
    by=st.just("steer run 1a2b3c4d"),
    reason=st.just("load test"),
    since=times,
    until=st.none() | times,
    size=st.none() | st.integers(1, 9),
)
entries = st.dictionaries(st.sampled_from(KEYS), steered)


def pin(size: int = 6, **fields: object) -> Steered:
    plain = {"by": "ann", "reason": "load test", "since": NOW, "until": None, "size": size}
    return Steered(**{**plain, **fields})  # type: ignore[arg-type]


class TestChanges:
    @given(entries, st.sampled_from(KEYS), steered)
    def test_a_new_entry_ends_that_of_its_kind_and_no_other(
        self, before: Entries, key: str, entry: Steered
    ) -> None:
        after = with_entry(before, key, entry, NOW)
        assert after[key] == entry
        ended = {"pin", "pause"} if key in ("pin", "pause") else {key}
        left = {k: each for k, each in standing(before, NOW).items() if k not in ended}
        assert {k: each for k, each in standing(after, NOW).items() if k != key} == left

    @given(entries, st.sets(st.sampled_from(KEYS)), st.floats(NOW - 60, NOW + 60))
    def test_what_is_resumed_stands_no_more_and_all_else_does(
        self, before: Entries, keys: set[str], at: float
    ) -> None:
        after = resumed(before, keys, "ann", "it is over", at, NOW)
        left = {k: each for k, each in standing(before, NOW).items() if k not in keys}
        assert standing(after, NOW) == left

    @given(entries, steered)
    def test_an_entry_is_dropped_a_day_after_its_end_and_no_earlier(
        self, before: Entries, entry: Steered
    ) -> None:
        after = with_entry(before, "freeze", entry, NOW)
        for key, each in before.items():
            over = each.until is not None and each.until + KEPT <= NOW
            assert key == "freeze" or (key in after) != over

    def test_its_end_is_not_within_its_time(self) -> None:
        assert pin(until=NOW + 1).stands(NOW)
        assert not pin(until=NOW).stands(NOW)
        assert pin().stands(NOW)

    def test_a_resumed_entry_says_who_ended_it_and_when(self) -> None:
        after = resumed({"pin": pin(since=NOW - 90)}, ["pin"], "ben", "done", NOW - 5, NOW)
        assert after == {"pin": pin(by="ben", reason="done", since=NOW - 5, until=NOW - 5)}

    def test_a_clock_ahead_when_it_was_resumed_does_not_let_it_stand(self) -> None:
        after = resumed({"pin": pin()}, ["pin"], "ben", "done", NOW + 50, NOW)
        assert not standing(after, NOW)

    def test_the_newest_of_a_pin_and_a_pause_counts_for_both(self) -> None:
        both = {"pin": pin(since=NOW - 9), "pause": pin(since=NOW)}
        assert newest(both, "pin") == newest(both, "pause") == both["pause"]
        assert newest(both, "freeze") is None

    @given(entries)
    def test_it_is_read_as_it_was_written(self, of: Entries) -> None:
        record = replace(Record.new("r"), steering=of)
        read = typed_json.read(TypeAdapter(Record), json.dumps(asdict(record)))
        assert read == record


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path)


def pinned(store: FolderStore, size: int = 6) -> Record:
    return steer(store, "clicks", lambda before: with_entry(before, "pin", pin(size), NOW))


def sizes(store: FolderStore) -> dict[str, int | None]:
    record = store.read("clicks")
    assert record is not None
    return {key: entry.size for key, entry in record.steering.items()}


class TestBesideOperations:
    def test_a_stream_that_was_never_started_can_be_steered(self, store: FolderStore) -> None:
        pinned(store)
        record = store.read("clicks")
        assert record is not None
        assert (record.epoch, record.desired, record.lease) == (0, "stopped", None)
        assert sizes(store) == {"pin": 6}

    def test_an_operation_goes_on_and_keeps_what_a_person_has_said(
        self, store: FolderStore
    ) -> None:
        with hold(store, "clicks", "restart run 1a2b", 0.0, keeping=unkept) as lease:
            before = lease.record
            pinned(store)
            lease.renew()
            pinned(store, 7)
            lease.write(replace(before, executors=3))
            assert lease.record.executors == 3
            pinned(store, 8)
        record = store.read("clicks")
        assert record is not None
        assert (record.executors, record.lease) == (3, None)
        assert sizes(store) == {"pin": 8}

    def test_a_write_whose_answer_is_lost_and_that_was_steered_since_is_known(
        self, store: FolderStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with hold(store, "clicks", "restart run 1a2b", 0.0, keeping=unkept) as lease:
            swap = store.swap

            def lost(stream: str, record: Record) -> None:
                monkeypatch.undo()
                swap(stream, record)
                raise ClusterError("the answer is lost")

            monkeypatch.setattr(store, "swap", lost)
            with pytest.raises(ClusterError, match="the answer is lost"):
                lease.write(replace(lease.record, executors=3))
            pinned(store)
            lease.renew()
            assert lease.record.executors == 3
        assert sizes(store) == {"pin": 6}

    @pytest.mark.parametrize("done", [True, False])
    def test_one_whose_answer_is_lost_has_failed_only_where_it_was_not_done(
        self, store: FolderStore, monkeypatch: pytest.MonkeyPatch, done: bool
    ) -> None:
        swap = store.swap

        def lost(stream: str, record: Record) -> None:
            if done:
                swap(stream, record)
            raise ClusterError("the answer is lost")

        monkeypatch.setattr(store, "swap", lost)
        if done:
            assert pinned(store).steering == {"pin": pin()}
        else:
            with pytest.raises(ClusterError, match="the answer is lost"):
                pinned(store)

    def test_a_write_that_was_steered_before_its_answer_came_is_done(
        self, store: FolderStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with hold(store, "clicks", "restart run 1a2b", 0.0, keeping=unkept) as lease:
            swap = store.swap

            def repeated(stream: str, record: Record) -> None:
                """As a client that sends a request again, whose first answer was lost."""
                monkeypatch.undo()
                swap(stream, record)
                pinned(store)
                swap(stream, record)

            monkeypatch.setattr(store, "swap", repeated)
            assert lease.write(replace(lease.record, executors=3)).steering
            lease.renew()
        assert sizes(store) == {"pin": 6}

    def test_a_lease_that_another_took_is_lost_also_where_it_was_steered(
        self, store: FolderStore
    ) -> None:
        time = Time()
        with hold(store, "clicks", "a", 0.0, keeping=unkept, clock=time.clock) as lease:
            pinned(store)
            time.now += 19
            record = store.read("clicks")
            assert record is not None
            taken = replace(record, lease=None, revision=record.revision + 1)
            store.swap("clicks", taken)
            pinned(store, 7)
            with pytest.raises(LeaseLost):
                lease.renew()
        assert sizes(store) == {"pin": 7}

    def test_a_store_that_refuses_without_a_change_loses_the_lease(
        self, store: FolderStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuses(stream: str, record: Record) -> None:
            raise Conflict("somebody was quicker")

        with hold(store, "clicks", "a", 0.0, keeping=unkept) as lease:
            monkeypatch.setattr(store, "swap", refuses)
            with pytest.raises(LeaseLost):
                lease.renew()
        with pytest.raises(ClusterError, match="has changed 50 times while it was to be steered"):
            pinned(store)

    def test_of_two_at_once_none_is_lost(
        self, store: FolderStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        swap = store.swap

        def second(stream: str, record: Record) -> None:
            monkeypatch.undo()
            steer(store, "clicks", lambda before: with_entry(before, "freeze", pin(1), NOW))
            swap(stream, record)

        monkeypatch.setattr(store, "swap", second)
        pinned(store)
        assert sizes(store) == {"freeze": 1, "pin": 6}

    def test_nothing_is_written_where_nothing_changes(self, store: FolderStore) -> None:
        pinned(store)
        assert pinned(store).revision == 1
