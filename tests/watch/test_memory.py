import json
import math
import zlib
from base64 import b64encode, b85encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.minutes import Minute, pack
from dagster_sparkscale.watch import cursor
from dagster_sparkscale.watch.coverage import Evaluated
from dagster_sparkscale.watch.memory import Memory, Reported, StreamMemory

times = st.floats(allow_nan=False, allow_infinity=False)
minutes = st.lists(
    st.builds(Minute, at=st.integers(0, 10**10), ratio=st.none() | st.floats(0, 1e6))
)
remembered = st.builds(
    StreamMemory,
    decided_at=times,
    told=st.builds(Reported, times, st.text(), st.none() | st.integers()),
    shown=st.text(),
    advanced=st.booleans(),
    checks=st.dictionaries(st.text(), st.text()),
    evaluated=st.builds(Evaluated, times, st.integers()),
    pending=minutes.map(lambda seen: pack(seen) if seen else {}),
)


def written(text: str) -> str:
    """A cursor that says `text`, as releases before this form wrote it."""
    return b64encode(zlib.compress(text.encode())).decode()


@given(st.dictionaries(st.text(), remembered))
def test_what_is_written_is_read_again(streams):
    assert Memory.load(Memory(streams).dump(keep=streams)).streams == streams


def test_a_stream_nobody_knows_yet_starts_with_nothing():
    memory = Memory.load(None)
    assert memory.of("clicks") == StreamMemory()
    memory.of("clicks").advanced = True
    assert memory.of("clicks").advanced


def test_streams_that_are_not_declared_any_more_are_forgotten():
    memory = Memory({"clicks": StreamMemory(1.0), "orders": StreamMemory(2.0)})
    assert set(Memory.load(memory.dump(keep={"orders": None})).streams) == {"orders"}


def test_two_streams_share_nothing():
    memory = Memory()
    memory.of("clicks").checks["running"] = "passed"
    assert memory.of("orders").checks == {}


def test_fields_of_another_version_are_passed_over():
    text = json.dumps({"streams": {"clicks": {"decided_at": 5, "mood": "good"}}, "mood": "good"})
    assert Memory.load(written(text)).of("clicks") == StreamMemory(decided_at=5.0)


def test_what_capabilities_keep_stands_in_a_cursor_where_it_always_stood():
    old = {"capacity": 30.0, "told": {"at": 5.0, "receiver": "receiver 1 is back"}, "mood": None}
    memory = Memory.load(written(json.dumps({"streams": {"clicks": old}})))
    known = memory.of("clicks")
    assert known.learned == {"capacity": 30.0}
    assert known.told.news == {"receiver": "receiver 1 is back"}
    now = json.loads(cursor.read(memory.dump(keep=["clicks"])))["streams"]["clicks"]
    assert (now["capacity"], now["told"]["receiver"]) == (30.0, "receiver 1 is back")
    assert not {"learned", "news", "mood"} & {*now, *now["told"]}


BAD_STREAMS = [
    *('{"clicks": null}', '{"clicks": []}', '{"clicks": 5}'),
    *('{"clicks": {"decided_at": "soon"}}', '{"clicks": {"decided_at": null}}'),
    *('{"clicks": {"decided_at": NaN}}', '{"clicks": {"decided_at": Infinity}}'),
    '{"clicks": {"decided_at": 1' + "0" * 400 + "}}",
    *('{"clicks": {"told": []}}', '{"clicks": {"told": {"at": NaN}}}'),
    *('{"clicks": {"pending": {}, "told": 5}}', '{"clicks": {"pending": {"ratio": 1}}}'),
    *('{"clicks": {"pending": {"at": [1.5]}}}', '{"clicks": {"pending": []}}'),
    *('{"clicks": {"pending": {"at": [1], "lag": [1, 2]}}}', '{"clicks": {"advanced": "no"}}'),
    *('{"clicks": {"checks": null}}', '{"clicks": {"checks": ["running"]}}'),
    *('{"clicks": {"checks": {"running": 5}}}', '{"clicks": {"advanced": "yes"}}'),
    *('{"clicks": {"evaluated": 5}}', '{"clicks": {"evaluated": {"at": NaN, "seq": 1}}}'),
    *('{"clicks": {"evaluated": {"seq": 0.5}}}', '{"clicks": {"evaluated": null}}'),
]


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "{}", "null", "[]", "5", "true", '"text"', "{", "not json", "\x00"),
        '["clicks"]',
        "[" * 100_000,
        *(f'{{"streams": {streams}}}' for streams in BAD_STREAMS),
        '{"fleet": 5, "streams": {"clicks": {"decided_at": 5}}}',
        '{"fleet": {"problems": 5}, "streams": {"clicks": {"decided_at": 5}}}',
    ],
)
def test_a_cursor_that_cannot_be_used_is_a_new_beginning(text):
    for one in (text, written(text or "")):
        assert Memory.load(one).of("clicks") == StreamMemory()


@pytest.mark.parametrize("number", ["Infinity", "1e200"])
def test_minutes_of_one_stream_that_cannot_be_read_cost_no_other_anything(number):
    minutes = f'{{"at": [1], "lag": {number}}}'
    streams = f'{{"a": {{"decided_at": 5.0}}, "b": {{"pending": {minutes}}}}}'
    memory = Memory.load(written(f'{{"streams": {streams}}}'))
    assert memory.of("a").decided_at == 5.0
    assert memory.of("b").pending == {}


@pytest.mark.parametrize("inner", ['"abc"', "5", "null", '{"names": [], "streams": [1]}'])
def test_a_cursor_of_todays_form_with_something_else_in_it_is_a_new_beginning(inner):
    text = "2:" + b85encode(zlib.compress(inner.encode())).decode()
    assert Memory.load(text) == Memory()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
fields = st.sampled_from(
    ["decided_at", "told", "shown", "advanced", "checks", "evaluated", "pending", "other"]
)


@given(
    st.text()
    | st.text().map(written)
    | json_values.map(json.dumps).map(written)
    | st.dictionaries(st.text(), st.dictionaries(fields, json_values)).map(
        lambda streams: written(json.dumps({"streams": streams}))
    )
)
def test_whatever_the_cursor_says_the_sensor_can_work_with_what_is_read(text):
    memory = Memory.load(text)
    for one in [*memory.streams.values(), memory.of("clicks")]:
        assert math.isfinite(1e9 - one.decided_at)
        assert math.isfinite(1e9 - one.told.at)
        assert pack(one.minutes)["at"] == one.pending.get("at", [])
        assert math.isfinite(1e9 - one.evaluated.at)
        assert type(one.evaluated.seq) is int
        assert type(one.advanced) is bool
        assert all(isinstance(outcome, str) for outcome in one.checks.values())
    assert Memory.load(memory.dump(keep=memory.streams)) == memory
