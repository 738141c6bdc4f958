"""A stream's minutes read back from a real event log."""

import time
from dataclasses import replace
from itertools import count

import dagster as dg
import pytest
from dagster._core.test_utils import freeze_time

from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.observe import history as history_module
from dagster_sparkscale.observe.history import history, newest
from dagster_sparkscale.observe.minutes import Minute
from tests.observe.stored import store

NOON = 1_700_000_000
_NUMBERS = count()
FOREVER = 2 * NOON


def minutes(*numbers):
    return [
        Minute(NOON + 60 * n, "running", epoch=1, ratio=0.5 + n / 1000, registered=2)
        for n in numbers
    ]


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:
        assert "sqlite" in type(instance.event_log_storage).__name__.lower()
        yield instance


@pytest.fixture
def key():
    """Of an asset that no other test knows; in an event log among all others, as they are."""
    return dg.AssetKey(["web", f"clicks_{next(_NUMBERS)}"])


def test_a_stream_that_nobody_has_told_of_has_no_history(instance, key):
    assert newest(instance, key, 10) == []
    with pytest.raises(LookupError, match=r"^stream = 'web/clicks_[0-9]+': must be an asset with"):
        history(instance, key, 0)


def test_a_misspelled_stream_is_told_from_one_that_did_not_run(instance, key):
    store(instance, key, minutes(0, 1))
    assert history(instance, key, NOON + 3600) == []
    path = [*key.path[:-1], f"{key.path[-1]}s"]
    with pytest.raises(LookupError, match="; did you mean 'web/clicks_"):
        history(instance, path, NOON)


def test_every_minute_of_both_kinds_of_events_in_order(instance, key):
    kinds = (dg.AssetObservation, dg.AssetMaterialization, dg.AssetMaterialization)
    for number, kind in enumerate(kinds * 2):
        store(instance, key, minutes(2 * number, 2 * number + 1), kind)
    assert history(instance, key, NOON) == minutes(*range(12))


@pytest.mark.clusters
def test_also_beyond_one_page_of_events(instance, key):
    # One more than two pages of each kind would be slow to store: one page, and a part of another.
    for number in range(503):
        store(instance, key, minutes(number))
    store(instance, key, minutes(503), dg.AssetMaterialization)
    assert history(instance, key, NOON) == minutes(*range(504))
    assert history(instance, key, NOON + 60 * 501, NOON + 60 * 503) == minutes(501, 502)


@pytest.mark.parametrize("events", [1, 2, 3, 4, 6])
def test_however_pages_and_events_fall_together(instance, key, events, monkeypatch):
    monkeypatch.setattr("dagster_sparkscale.observe.history._PAGE", 2)
    for number in range(events):
        store(instance, key, minutes(number))
    assert history(instance, key, NOON) == minutes(*range(events))


def test_what_was_stored_twice_after_a_crash_counts_once(instance, key):
    store(instance, key, minutes(0, 1, 2))
    store(instance, key, minutes(0, 1, 2, 3))
    store(instance, key, minutes(2, 3), dg.AssetMaterialization)
    assert history(instance, key, NOON) == minutes(0, 1, 2, 3)


class TestTheSpan:
    @pytest.fixture(autouse=True)
    def stored(self, instance, key):
        for first in range(0, 30, 10):
            kind = dg.AssetMaterialization if first == 10 else dg.AssetObservation
            store(instance, key, minutes(*range(first, first + 10)), kind)

    @pytest.mark.parametrize(
        ("first", "end"), [(0, 30), (5, 25), (9, 10), (9, 11), (10, 20), (19, 21), (29, 30), (7, 7)]
    )
    def test_begins_with_its_first_minute_and_ends_before_its_last(self, instance, first, end, key):
        found = history(instance, key, NOON + 60 * first, NOON + 60 * end)
        assert found == minutes(*range(first, end))

    def test_a_part_of_a_minute_is_none(self, instance, key):
        assert history(instance, key, NOON + 0.5, NOON + 60.5) == minutes(1)

    def test_ends_now_if_nothing_else_is_said(self, instance, key, monkeypatch):
        assert history(instance, key, NOON) == minutes(*range(30))
        monkeypatch.setattr(time, "time", lambda: NOON + 120.0)
        assert history(instance, key, NOON) == minutes(0, 1)

    def test_is_not_turned_round(self, instance, key):
        with pytest.raises(ValueError, match=r"until = 5\.0: must not be before since = 6\.0"):
            history(instance, key, 6.0, 5.0)
        assert history(instance, key, 6.0, 6.0) == []

    def test_minutes_that_were_stored_late_are_in_it(self, instance, key):
        """Dagster was down, and the event comes with the next tick."""
        store(instance, key, minutes(30, 31), at=NOON + 86400)
        assert history(instance, key, NOON + 60 * 30, NOON + 60 * 31) == minutes(30)
        assert history(instance, key, NOON + 60 * 32, FOREVER) == []

    @pytest.mark.parametrize("kind", [dg.AssetObservation, dg.AssetMaterialization])
    def test_however_late(self, instance, key, kind):
        """Dagster was down for a weekend, and something else was told first."""
        monday = NOON + 3 * 86400
        with freeze_time(monday):
            instance.report_runless_asset_event(kind(key, metadata={"executors_after": 3}))
        late = [*minutes(30, 31), replace(minutes(0)[0], at=monday + 60)]
        store(instance, key, late, kind)
        assert history(instance, key, NOON + 60 * 30, NOON + 60 * 32) == minutes(30, 31)

    def test_no_event_is_read_behind_that_with_its_end(self, instance, key, monkeypatch):
        for day in range(1, 8):
            store(instance, key, [replace(minutes(0)[0], at=NOON + day * 86400)])
        read = []
        carried = history_module.carried
        monkeypatch.setattr(history_module, "carried", lambda v: read.append(v) or carried(v))
        assert history(instance, key, NOON, NOON + 1800) == minutes(*range(30))
        assert len(read) == 3 + 2  # the first of them that are later may be, by a day


def test_the_clock_of_who_stores_may_be_behind(instance, key):
    store(instance, key, minutes(1), at=NOON + 30)
    assert history(instance, key, NOON + 60) == minutes(1)


@pytest.mark.parametrize("as_written", [str, lambda name: [name], dg.AssetKey])
def test_the_stream_can_be_named_in_each_way(instance, as_written, key):
    name = key.path[-1]
    store(instance, dg.AssetKey(name), minutes(0))
    store(instance, key, minutes(1))
    assert history(instance, as_written(name), NOON) == minutes(0)
    assert history(instance, ["web", name], NOON) == minutes(1)


@pytest.mark.parametrize(
    "value",
    [
        *(5, 0.5, True, "nonsense", "", "null", [NOON], {}, {"at": [NOON]}),
        *(dg.MetadataValue.null(), dg.MetadataValue.md("nonsense")),
        *(dg.MetadataValue.md(text) for text in ("<!-- -->", "see <!--nonsense-->", "<!--eA==-->")),
    ],
)
@pytest.mark.parametrize("kind", [dg.AssetObservation, dg.AssetMaterialization])
def test_what_somebody_else_says_of_the_asset_is_passed_over(instance, kind, value, key):
    store(instance, key, minutes(0))
    instance.report_runless_asset_event(kind(key, metadata={MINUTES: value}))
    # As an operation's report has none.
    instance.report_runless_asset_event(kind(key, metadata={"executors_after": 3}))
    store(instance, key, minutes(1), at=FOREVER)
    assert history(instance, key, 0, FOREVER) == minutes(0, 1)
    assert newest(instance, key, 10) == minutes(0, 1)


class TestTheNewest:
    def test_are_of_the_last_events_of_each_kind(self, instance, key):
        for first in range(0, 12, 2):
            store(instance, key, minutes(first, first + 1))
            if first < 6:
                changed = [replace(m, at=m.at + 7) for m in minutes(first)]
                store(instance, key, changed, dg.AssetMaterialization)
        found = newest(instance, key, 2)
        assert [each.at - NOON for each in found] == [127, 247, *range(480, 720, 60)]

    def test_each_once(self, instance, key):
        store(instance, key, minutes(0, 1))
        store(instance, key, minutes(0, 1, 2), dg.AssetMaterialization)
        assert newest(instance, key, 5) == minutes(0, 1, 2)
