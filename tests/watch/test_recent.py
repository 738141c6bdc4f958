"""The last hours of streams: remembered in the process, and read back after it was started anew."""

from dataclasses import replace

import dagster as dg
import pytest

from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.memory import StreamMemory
from dagster_sparkscale.watch.page import recent as recent_module
from dagster_sparkscale.watch.page.overview import Decided
from dagster_sparkscale.watch.page.picture import WIDTHS
from dagster_sparkscale.watch.page.recent import Recent, Recents
from tests.observe.stored import store

BUCKET = WIDTHS[0]
START = 3_000_000 * BUCKET
KEY = dg.AssetKey(["web", "clicks"])
BUSY = Minute(START, "running", epoch=2, ratio=0.5, registered=2)


def at(bucket, **fields):
    return replace(BUSY, at=START + bucket * BUCKET, **fields)


SCALED = at(1, decision="scale to 3", reason="R is 0.95")
DECIDED = Decided(SCALED.at, "scale to 3", "R is 0.95", f"clicks:2:{SCALED.at}")


@pytest.fixture
def instance(tmp_path):
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path)) as instance:
        yield instance


@pytest.fixture
def recents():
    recents = Recents()
    recents.tick({"clicks"})
    return recents


def of(recents, instance, pending=()):
    memory = StreamMemory()
    memory.minutes = pending
    return recents.of(instance, "clicks", KEY, memory)


def numbers(recent):
    return [bucket.number - 3_000_000 for bucket in recent.buckets.kept]


class TestOneStream:
    def test_a_minute_is_drawn_and_its_decision_kept_with_its_run(self):
        recent = Recent("clicks")
        recent.add(at(0))
        recent.add(SCALED)
        assert numbers(recent) == [0, 1]
        assert list(recent.decided) == [DECIDED]

    def test_the_last_ten_decisions_are_kept(self):
        recent = Recent("clicks")
        for number in range(15):
            recent.add(at(number, decision="restart"))
        assert [each.at for each in recent.decided] == [at(number).at for number in range(5, 15)]
        assert recent.decided[0].reason == ""


class TestReadBack:
    def test_what_is_stored_and_then_what_is_pending(self, instance, recents):
        store(instance, KEY, [at(0), SCALED])
        store(instance, KEY, [at(2)], dg.AssetMaterialization)
        recent = of(recents, instance, [at(3)])
        assert numbers(recent) == [0, 1, 2, 3]
        assert list(recent.decided) == [DECIDED]

    def test_what_was_stored_and_is_pending_still_counts_once(self, instance, recents):
        store(instance, KEY, [at(0), SCALED, at(2, ratio=0.9)])
        recent = of(recents, instance, [at(0), SCALED])
        assert numbers(recent) == [0, 1, 2]
        assert list(recent.decided) == [DECIDED]

    def test_the_newest_events_alone_are_read(self, instance, recents, monkeypatch):
        monkeypatch.setattr(recent_module, "EVENTS", 2)
        for number in range(4):
            store(instance, KEY, [at(number)])
        assert numbers(of(recents, instance)) == [2, 3]

    def test_what_was_read_is_remembered(self, instance, recents):
        first = of(recents, instance)
        store(instance, KEY, [at(0)])
        recents.tick({"clicks"})
        assert first.buckets.kept == []
        first.add(at(1))
        assert of(recents, instance, [at(1)]) is first

    def test_a_tick_that_was_only_tried_out_is_forgotten(self, instance, recents):
        tried = of(recents, instance, [at(1)])
        tried.add(at(2))
        recents.tick({"clicks"})
        again = of(recents, instance, [at(1)])
        assert again is not tried
        assert again.seen_at == at(1).at

    def test_each_stream_has_its_own(self, instance, recents):
        store(instance, KEY, [at(0)])
        other = recents.of(instance, "orders", dg.AssetKey("orders"), StreamMemory())
        assert (other.stream, other.buckets.kept) == ("orders", [])
        assert numbers(of(recents, instance)) == [0]

    def test_one_that_is_not_declared_any_more_is_forgotten(self, instance, recents):
        first = of(recents, instance)
        recents.tick({"orders"})
        recents.tick({"clicks"})
        assert of(recents, instance) is not first

    def test_what_there_was_no_time_for_is_read_at_a_later_tick(
        self, instance, recents, monkeypatch
    ):
        store(instance, KEY, [at(0)])
        with monkeypatch.context() as patch:
            patch.setattr(recent_module, "READING", 0.0)
            recents.tick({"clicks"})
            assert numbers(of(recents, instance, [at(1)])) == [1]
        recents.tick({"clicks"})
        assert numbers(of(recents, instance, [at(1)])) == [0, 1]

    def test_what_could_not_be_read_is_read_at_a_later_tick(self, instance, recents, monkeypatch):
        store(instance, KEY, [at(0)])
        with monkeypatch.context() as patch:
            patch.setattr(recent_module, "newest", broken)
            with pytest.raises(OSError, match="locked"):
                of(recents, instance)
        assert numbers(of(recents, instance)) == [0]

    def test_what_somebody_else_has_stored_is_passed_over(self, instance, recents):
        store(instance, KEY, [at(0)])
        for value in ("nonsense", {"at": [5]}, "<!--nonsense-->"):
            instance.report_runless_asset_event(dg.AssetObservation(KEY, metadata={MINUTES: value}))
        assert numbers(of(recents, instance)) == [0]


def broken(*_):
    raise OSError("database is locked")
