import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.watch.coverage import Evaluated
from dagster_sparkscale.watch.memory import Memory, StreamMemory

times = st.floats(allow_nan=False, allow_infinity=False)
remembered = st.builds(
    StreamMemory,
    times,
    times,
    st.booleans(),
    st.dictionaries(st.text(), st.text()),
    st.builds(Evaluated, times, st.integers()),
)


@given(st.dictionaries(st.text(), remembered))
def test_what_is_written_is_read_again(streams):
    assert Memory.load(Memory(streams).dump(keep=streams)).streams == streams


def test_a_stream_nobody_knows_yet_starts_with_nothing():
    memory = Memory.load(None)
    assert memory.of("clicks") == StreamMemory(0.0, 0.0, False, {})
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
    cursor = json.dumps({"streams": {"clicks": {"decided_at": 5, "mood": "good"}}, "mood": "good"})
    assert Memory.load(cursor).of("clicks") == StreamMemory(decided_at=5.0)


BAD_STREAMS = [
    *('{"clicks": null}', '{"clicks": []}', '{"clicks": 5}'),
    *('{"clicks": {"decided_at": "soon"}}', '{"clicks": {"decided_at": null}}'),
    *('{"clicks": {"decided_at": NaN}}', '{"clicks": {"decided_at": Infinity}}'),
    '{"clicks": {"decided_at": 1' + "0" * 400 + "}}",
    *('{"clicks": {"materialized_at": []}}', '{"clicks": {"advanced": "no"}}'),
    *('{"clicks": {"checks": null}}', '{"clicks": {"checks": ["running"]}}'),
    *('{"clicks": {"checks": {"running": 5}}}', '{"clicks": {"advanced": "yes"}}'),
    *('{"clicks": {"evaluated": 5}}', '{"clicks": {"evaluated": {"at": NaN, "seq": 1}}}'),
    *('{"clicks": {"evaluated": {"seq": 0.5}}}', '{"clicks": {"evaluated": null}}'),
]


@pytest.mark.parametrize(
    "cursor",
    [
        *(None, "", "{}", "null", "[]", "5", "true", '"text"', "{", "not json", "\x00"),
        '["clicks"]',
        "[" * 100_000,
        *(f'{{"streams": {streams}}}' for streams in BAD_STREAMS),
        '{"fleet": 5, "streams": {"clicks": {"decided_at": 5}}}',
        '{"fleet": {"problems": 5}, "streams": {"clicks": {"decided_at": 5}}}',
    ],
)
def test_a_cursor_that_cannot_be_used_is_a_new_beginning(cursor):
    assert Memory.load(cursor).of("clicks") == StreamMemory()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
fields = st.sampled_from(
    ["decided_at", "materialized_at", "advanced", "checks", "evaluated", "other"]
)


@given(
    st.text()
    | json_values.map(json.dumps)
    | st.dictionaries(st.text(), st.dictionaries(fields, json_values)).map(
        lambda streams: json.dumps({"streams": streams})
    )
)
def test_whatever_the_cursor_says_the_sensor_can_work_with_what_is_read(cursor):
    memory = Memory.load(cursor)
    for one in [*memory.streams.values(), memory.of("clicks")]:
        assert math.isfinite(1e9 - one.decided_at)
        assert math.isfinite(1e9 - one.materialized_at)
        assert math.isfinite(1e9 - one.evaluated.at)
        assert type(one.evaluated.seq) is int
        assert type(one.advanced) is bool
        assert all(isinstance(outcome, str) for outcome in one.checks.values())
    assert Memory.load(memory.dump(keep=memory.streams)) == memory
