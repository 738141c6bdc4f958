import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.positions import Kind, Offset, Position, before

sequences = st.integers(0, 10**128 - 1).map(str)
moments = st.integers(0, 2**53)
positions = st.builds(Position, st.sampled_from(Kind), st.none() | sequences, st.none() | moments)
offsets = st.builds(
    Offset,
    st.just("clicks"),
    st.dictionaries(st.text(max_size=5), positions, max_size=5),
    st.none() | moments,
    st.integers(0, 100),
)


@given(offsets)
def test_an_offset_comes_back_from_its_json_as_it_was(offset):
    assert Offset.from_json(json.loads(json.dumps(offset.to_json())), "clicks") == offset


def test_the_json_of_an_offset_is_a_format_that_checkpoints_hold():
    offset = Offset(
        "clicks",
        {
            "shardId-000000000001": Position(Kind.AT, "4957", 17),
            "shardId-000000000000": Position(Kind.END),
            "shardId-000000000002": Position(Kind.TIME, time_ms=5),
            "shardId-000000000003": Position(Kind.TRIM),
            "shardId-000000000004": Position(Kind.AFTER, "12"),
        },
        from_ms=5,
        lost=2,
    )
    written = (
        '{"v": 1, "stream": "clicks", "shards": {'
        '"shardId-000000000000": {"k": "END"}, '
        '"shardId-000000000001": {"k": "AT", "s": "4957", "t": 17}, '
        '"shardId-000000000002": {"k": "TS", "t": 5}, '
        '"shardId-000000000003": {"k": "TRIM"}, '
        '"shardId-000000000004": {"k": "AFTER", "s": "12"}}, '
        '"from": 5, "lost": 2}'
    )
    assert json.dumps(offset.to_json()) == written
    assert Offset.from_json(json.loads(written), "clicks") == offset


@pytest.mark.parametrize("version", [2, 0, "1", None])
def test_an_offset_of_another_version_is_refused(version):
    with pytest.raises(ValueError, match=r"offsets of version .*; this source reads version 1"):
        Offset.from_json({"v": version, "stream": "clicks", "shards": {}}, "clicks")


def test_an_offset_of_another_stream_is_refused():
    with pytest.raises(ValueError, match="is of the stream 'orders', and streamName is 'clicks'"):
        Offset.from_json(Offset("orders").to_json(), "clicks")


def test_a_shard_that_was_not_begun_begins_where_the_query_did():
    assert Offset("s", from_ms=5).first(9) == Position(Kind.TIME, time_ms=5)
    assert Offset("s").first(9) == Position(Kind.TRIM, time_ms=9)


@given(sequences, sequences)
def test_sequence_numbers_are_compared_as_numbers(one, other):
    assert before(one, other) == (int(one) < int(other))
    assert not before(one, one)
