"""Minutes for which the cursor has no room."""

import zlib
from base64 import b64encode

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.history import history
from dagster_sparkscale.observe.minutes import Minute, pack
from dagster_sparkscale.watch import cursor, spills, turns
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.spills import restored, written
from tests.fakes import scaled
from tests.watch.deployment import FLEET_KEY, Deployment, overload

NAMES = ("clicks", "orders", "users")
packs = st.dictionaries(
    st.text(),
    st.lists(st.builds(Minute, st.integers(0, 10**10), ratio=st.floats(0, 9)), min_size=1).map(
        pack
    ),
)


@given(st.text(), st.integers(0, 10**10), packs)
def test_what_is_written_is_read_again(owner, at, some):
    assert restored(written(owner, at, some)) == (owner, at, some)


@pytest.mark.parametrize("text", ["", "x", "eJwDAAAAAAE=", written("o", 1, {})[:-8]])
def test_what_is_none_is_refused(text):
    with pytest.raises(ValueError, match="must be compressed minutes"):
        restored(text)


@pytest.fixture
def full(monkeypatch, clock) -> Deployment:
    """Three streams, and a cursor that has no room for any minute."""
    monkeypatch.setattr(cursor, "ROOM", 1)
    monkeypatch.setattr(cursor, "A_STREAM", 0)
    deployed = Deployment(
        [scaled(name, max_executors=10) for name in ("clicks", "orders", "users")]
    )
    for stream in deployed.streams:
        overload(deployed, stream, batch_seconds=5)
    return deployed


def again(deployed: Deployment) -> Deployment:
    """The code location was started anew."""
    return Deployment(deployed.streams, deployed.world, deployed.instance, deployed.cursor)


def known(deployed: Deployment, stream: str = "clicks"):
    return Memory.load(deployed.cursor).of(stream)


def ats(deployed: Deployment, clock, stream: str) -> list[int]:
    """The minutes of a stream that are stored."""
    return [minute.at for minute in history(deployed.instance, stream, 0, clock[0] + 1)]


class TestACursorThatIsFull:
    def test_has_no_minute_and_every_one_is_stored_with_the_next_event(self, full, clock):
        begun = int(clock[0])
        for _ in range(12):
            full.tick()
            assert known(full).pending == {}
            clock[0] += 60
        ticks = range(begun, int(clock[0]), 60)
        for name in NAMES:
            stored = ats(full, clock, name)
            assert len(stored) > 5
            assert stored == list(ticks[: len(stored)])

    def test_none_is_lost_where_the_process_is_another_each_tick(self, full, clock):
        begun = int(clock[0])
        for _ in range(12):
            full = again(full)
            full.tick()
            clock[0] += 60
        for name in NAMES:
            stored = ats(full, clock, name)
            assert len(stored) > 5
            assert stored == [begun + 60 * n for n in range(len(stored))]

    def test_none_is_lost_where_every_other_tick_is_dropped(self, full, clock):
        begun = int(clock[0])
        for number in range(16):
            before = full.cursor
            full.tick(stored=number % 2 == 0)
            if number % 2:
                full.cursor = before
            clock[0] += 60
        stored = ats(full, clock, "clicks")
        assert len(stored) >= 5
        assert set(range(begun, stored[-1] + 1, 120)) <= set(stored)

    @pytest.mark.parametrize("process", [again, lambda deployed: deployed])
    def test_none_is_lost_where_the_clock_was_set_back(self, full, clock, monkeypatch, process):
        full.passing(2, clock)
        clock[0] -= 7200
        begun = int(clock[0])
        with monkeypatch.context() as patch:
            patch.setattr(turns.Room, "is_left", lambda *_: False)
            full.passing(4, clock)
        full = process(full)
        full.passing(1, clock)
        assert {begun + 60 * n for n in range(5)} <= {*ats(full, clock, "clicks")}

    def test_none_is_lost_however_many_sensors_tell_of_the_fleet(self, full, clock):
        begun = int(clock[0])
        full.passing(3, clock)
        for _ in range(320):
            full.instance.report_runless_asset_event(dg.AssetObservation(FLEET_KEY))
        full = again(full)
        clock[0] += 600
        full.tick()
        assert ats(full, clock, "clicks") == [begun, begun + 60, begun + 120, begun + 780]

    def test_what_is_gone_is_looked_for_no_further_back_than_it_can_be(self, full, clock):
        full.tick()
        for _ in range(3 * spills.PAGE):
            full.instance.report_runless_asset_event(dg.AssetObservation(FLEET_KEY))
        clock[0] += spills.SKEW + 1
        full.tick()
        pages = []
        fetch = full.instance.fetch_observations
        full.instance.fetch_observations = lambda *of: pages.append(of) or fetch(*of)
        assert [*spills._carried(full.instance, FLEET_KEY, clock[0] - spills.SKEW)]
        assert len(pages) == 1

    def test_the_fleet_stays_on_its_page(self, full, clock):
        full.passing(4, clock)
        (record,) = full.instance.fetch_observations(FLEET_KEY, limit=1).records
        assert {"at a glance", "streams 1"} <= record.asset_observation.metadata.keys()

    def test_what_was_told_is_forgotten(self, full, clock):
        full.passing(25, clock)
        waiting = min(known(full, name).told.at for name in NAMES)
        assert all(at > waiting for at in Memory.load(full.cursor).spills)


class TestWhereTheyCannotBeReadBack:
    def locked(self, *_):
        raise OSError("database is locked")

    def test_their_streams_are_told_of_later(self, full, clock, monkeypatch):
        begun = int(clock[0])
        full.passing(3, clock)
        full = again(full)
        with monkeypatch.context() as patch:
            patch.setattr(spills, "_carried", self.locked)
            clock[0] += 600
            tick = full.tick()
            assert tick.told() == []
            assert "minutes that wait can't be read: OSError" in tick.data.skip_message
        clock[0] += 60
        assert full.tick().told()
        stored = ats(full, clock, "clicks")
        assert stored == [begun, begun + 60, begun + 120, begun + 780, begun + 840]

    def test_that_they_are_gone_is_said_and_the_others_are_told(self, full, clock):
        full.passing(3, clock)
        full.instance.wipe_assets([FLEET_KEY])
        full = again(full)
        tick = full.tick()
        assert "minutes of 2 ticks are lost: the events of fleet are gone" in tick.data.skip_message
        clock[0] += 600
        assert full.tick().told()


def test_minutes_that_have_waited_for_too_long_are_said_to_be_lost(full, clock, monkeypatch):
    full.passing(2, clock)
    with monkeypatch.context() as patch:
        patch.setattr(turns.Room, "is_left", lambda *_: False)
        full.passing(3, clock)
    clock[0] += spills.KEPT + 3600
    said = full.tick().data.skip_message
    assert "minutes of 4 ticks are lost: they have waited for more than 4 h" in said


def packed(text: str) -> str:
    return b64encode(zlib.compress(text.encode())).decode()


@pytest.mark.parametrize(
    "text",
    [
        '{"of":"o","at":Infinity,"names":[],"minutes":{"at":[]}}',
        "[" * 100_000,
        '{"of":"o","at":1,"names":["a"],"minutes":[]}',
    ],
)
def test_minutes_of_an_odd_form_are_refused_as_any_others(text):
    with pytest.raises(ValueError, match="must be compressed minutes"):
        restored(packed(text))
