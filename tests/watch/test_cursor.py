"""The cursor's form and its length."""

import json
import random
import zlib
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.scale_down import Asked
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.usage import Usage
from dagster_sparkscale.watch import cursor
from dagster_sparkscale.watch.columns import columns, rows
from dagster_sparkscale.watch.coverage import Evaluated
from dagster_sparkscale.watch.fleet.problems import Standing
from dagster_sparkscale.watch.marks import mark, same
from dagster_sparkscale.watch.memory import Memory, Reported, StreamMemory

NOW = 1_800_000_000
OLD = Path(__file__).parent / "old_cursor.json"

scalars = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
a_row = st.recursive(
    st.dictionaries(st.text(max_size=2), scalars, max_size=4),
    lambda inner: st.dictionaries(st.text(max_size=2), scalars | inner, max_size=4),
    max_leaves=8,
)


class TestColumns:
    @given(st.lists(a_row, min_size=1, max_size=6))
    def test_rows_that_were_made_columns_come_back(self, of):
        assert rows(json.loads(json.dumps(columns(of))), len(of)) == of

    @given(st.lists(st.floats(1e9, 1.00001e9) | st.integers(10**9, 10**9 + 10**5), min_size=1))
    def test_times_come_back_to_the_last_digit(self, times):
        made = columns([{"at": time} for time in times])
        assert [row["at"] for row in rows(json.loads(json.dumps(made)), len(times))] == times

    @pytest.mark.parametrize(
        "column", [5, None, [1], {"=": 1, "+": 2}, {"+": [1]}, {"+": [1, "x"]}, {"?": 1}, {"/": 5}]
    )
    def test_what_is_no_column_is_refused(self, column):
        with pytest.raises(ValueError, match="must be a column of 2 values"):
            rows({"a": column}, 2)


class TestMarks:
    @given(st.text())
    def test_a_mark_is_short_and_its_own_mark_and_stands_for_its_text(self, text):
        assert len(mark(text)) <= 20
        assert mark(mark(text)) == mark(text)
        assert same(text, mark(text)) and same(mark(text), text)

    @given(st.text(), st.text())
    def test_two_texts_are_not_the_same(self, one, other):
        assert same(one, other) == (one == other)
        assert not same(one, None)


def a_stream(chance: random.Random, number: int, texts: int) -> StreamMemory:
    """What is remembered of a stream whose numbers waver, as a real one's do."""

    def text() -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=texts))

    most, executors = chance.randint(4, 12), chance.randint(1, 12)
    memory = StreamMemory(
        decided_at=NOW + 0.123456,
        told=Reported(
            at=NOW - 60 * chance.randrange(10),
            headline="running",
            epoch=chance.randint(1, 30),
            registered=executors,
            requested=executors,
            failing=text(),
            news={"operated": text()} if texts else {},
            lesser_at=NOW - 60 * chance.randrange(10_000),
        ),
        shown=f"running 3  {executors} of {executors} {text()}",
        epoch=number % 30,
        checks=dict.fromkeys(("running", "ratio_below_one", "no_data_lost"), "passed")
        | ({"declaration_applied": f"failed {text()}"} if texts else {}),
        evaluated=Evaluated(NOW + chance.randrange(30) / 10, chance.randrange(100_000)),
        asked=Asked(3, NOW + 0.123456, ((NOW + 0.123456, executors),)),
        usage=Usage(NOW // 86400, chance.randrange(10**6), 40_000 + chance.randrange(120), most),
    )
    return memory


def a_minute(chance: random.Random, minute: int) -> Minute:
    def short(least: float, most: float) -> float:
        return float(f"{chance.uniform(least, most):.3g}")

    return Minute(
        NOW + 60 * minute, "running", 3, short(0.3, 0.9), lag=short(0, 9), registered=4,
        requested=4, processing_ms=short(3e3, 9e3), scheduling_ms=short(0, 90),
        input_rate=short(100, 999), processed_rate=short(100, 999),
        backlog=chance.randrange(9000), completed=6, failed=0,
    )  # fmt: skip


def fleet(streams: int, minutes: int = 0, texts: int = 0, problems: int = 0) -> Memory:
    chance = random.Random(7)
    words = ("clicks", "orders", "users", "events", "payments", "sessions", "carts", "views", "raw")
    memory = Memory()
    for number in range(streams):
        name = f"{'_'.join(chance.sample(words, 3))}_{number}"
        memory.streams[name] = a_stream(chance, number, texts)
        for minute in range(minutes):
            memory.streams[name].add(a_minute(chance, minute))
        if number < problems:
            text = f"the agent of {name!r} at http://10.{number % 255}.3.4:4077 gave no answer"
            memory.fleet.problems[name] = {"unhealthy": Standing(NOW + number, NOW + 60.5, text)}
    return memory


class TestItsLength:
    @pytest.mark.parametrize(
        "of",
        [
            {},
            {"minutes": 1},
            {"texts": 60},
            {"problems": 1000},
            {"minutes": 10, "texts": 100, "problems": 1000},
        ],
    )
    def test_of_a_thousand_streams_it_is_below_that_of_a_column_of_mysql(self, of):
        memory = fleet(1000, **of)
        text = memory.dump(keep=memory.streams)
        assert len(text) <= cursor.ROOM < 65_535
        known = Memory.load(text)
        assert known.streams.keys() == memory.streams.keys()
        for name, each in memory.streams.items():
            # So many minutes go into the fleet's event where there is one, and here nowhere.
            assert known.streams[name].told.at == each.told.at
            assert same(known.streams[name].shown, each.shown)
            assert same(known.streams[name].told.failing, each.told.failing)
            assert known.streams[name].evaluated == each.evaluated

    def test_minutes_are_spilled_before_anything_is_left_out(self):
        memory, asked = fleet(1000, minutes=3), []

        def spill() -> bool:
            asked.append(len(memory.streams))
            for each in memory.streams.values():
                each.pending = {}
            return True

        text = memory.dump(memory.streams, spill)
        assert asked == [1000]
        assert cursor.LEFT_OUT not in json.loads(cursor.read(text))

    def test_where_nothing_takes_them_it_says_what_was_left_out(self):
        memory = fleet(1000, minutes=10)
        left_out = json.loads(cursor.read(memory.dump(memory.streams)))[cursor.LEFT_OUT]
        assert left_out[-1] == "the minutes that no event tells of yet"

    def test_what_is_left_out_of_a_small_fleet_is_nothing(self):
        memory = fleet(50, minutes=10, texts=40, problems=50)
        text = memory.dump(memory.streams, spill=lambda: pytest.fail("there is room"))
        assert Memory.load(text) == memory

    def test_problems_of_streams_of_silent_sensors_have_no_room_of_their_own(self):
        memory = fleet(10_000, problems=10_000)
        names = list(memory.streams)
        for name in names[1000:]:
            del memory.streams[name]
        text = memory.dump(keep=names)
        assert len(text) <= cursor.ROOM
        found = Memory.load(text)
        assert found.left_out[0] == "the problems of streams whose sensors are silent"
        assert found.fleet.problems.keys() == set(names[:1000])
        assert all(
            one["unhealthy"].since == memory.fleet.problems[name]["unhealthy"].since
            for name, one in found.fleet.problems.items()
        )

    def test_of_what_is_not_kept_no_problem_is_remembered(self):
        memory = fleet(4, problems=4)
        kept = next(iter(memory.streams))
        assert Memory.load(memory.dump(keep=[kept])).fleet.problems.keys() == {kept}

    def test_more_streams_have_more_room(self):
        memory = fleet(3000)
        assert cursor.room_for(3000) == 3 * cursor.room_for(1000)
        text = memory.dump(memory.streams)
        assert Memory.load(text).streams == memory.streams


class TestAnOlderReleases:
    """One that was written by the release before is gone on with."""

    def test_nothing_of_it_is_lost(self):
        old = json.loads(OLD.read_text())
        was = b64encode(zlib.compress(json.dumps(old).encode())).decode()
        memory = Memory.load(was)
        clicks, orders = memory.of("clicks"), memory.of("orders")
        assert (clicks.told.headline, clicks.told.registered, clicks.epoch) == ("running", 4, 3)
        assert [minute.ratio for minute in clicks.minutes] == [0.5, 0.62]
        assert clicks.evaluated == Evaluated(1800000057.25, 812)
        assert clicks.learned == {"capacity": 30.0}
        assert clicks.told.news == {"receiver": "receiver 1 is back on executor 4"}
        assert orders.checks == {"running": "failed no executor could be started on any host"}
        assert orders.granted == (1800000000.5, 7)
        assert memory.fleet.problems["orders"]["failed"].since == 1799999000.0
        assert memory.spills == []
        assert Memory.load(memory.dump(memory.streams)) == memory
