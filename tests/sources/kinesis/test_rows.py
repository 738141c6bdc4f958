from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from aws_kinesis_agg.aggregator import RecordAggregator
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.rows import SCHEMA, split_aggregated, to_arrow

AT = datetime(2026, 1, 31, 12, 0, 0, 123000, UTC)
AT_S = AT.timestamp()
MAGIC = b"\xf3\x89\x9a\xc2"


def record(data, number=1, at_s=AT_S, key="k"):
    return {
        "Data": b64encode(data).decode(),
        "PartitionKey": key,
        "SequenceNumber": str(number),
        "ApproximateArrivalTimestamp": at_s,
        "EncryptionType": "KMS",
    }


def aggregated(*parts, number=1):
    """What the Kinesis Producer Library makes of some records."""
    aggregator = RecordAggregator()
    for key, data in parts:
        assert aggregator.add_user_record(key, data) is None
    _, _, data = aggregator.clear_and_get().get_contents()
    assert data.startswith(MAGIC)
    return record(data, number, key="aggregate")


def rows(records, deaggregate=True):
    return to_arrow(records, "shard-1", "clicks", deaggregate).to_pylist()


def test_a_record_is_a_row():
    assert rows([record(b"abc\x00", 17)]) == [
        {
            "data": b"abc\x00",
            "partitionKey": "k",
            "sequenceNumber": "17",
            "subSequenceNumber": None,
            "approximateArrivalTimestamp": AT,
            "shardId": "shard-1",
            "streamName": "clicks",
        }
    ]


@pytest.mark.parametrize("records", [[record(b"")], [aggregated(("a", b"1"), ("b", b"2"))]])
def test_the_arrow_schema_is_the_one_spark_is_told(records):
    types = {"binary": pa.binary(), "string": pa.string(), "bigint": pa.int64()}
    types["timestamp"] = pa.timestamp("us", tz="UTC")
    told = [tuple(each.split()) for each in SCHEMA.split(", ")]
    expected = pa.schema([(name, types[kind]) for name, kind in told])
    assert to_arrow(records, "s", "t", True).schema == expected


@given(st.lists(st.tuples(st.binary(max_size=50), st.integers(0, 4 * 10**12))))
def test_data_and_moments_come_through_to_the_millisecond(given):
    records = [record(data, at_s=ms / 1000) for data, ms in given if not data.startswith(MAGIC)]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = [
        (data, epoch + timedelta(milliseconds=ms))
        for data, ms in given
        if not data.startswith(MAGIC)
    ]
    found = rows(records)
    assert [(row["data"], row["approximateArrivalTimestamp"]) for row in found] == expected


def test_records_that_were_put_together_are_taken_apart():
    records = [
        record(b"first", 1),
        aggregated(("a", b"one"), ("b", b""), ("a", b"\xff\x00"), number=2),
        record(b"last", 3),
        aggregated(("c", b"single"), number=4),
    ]
    found = [
        (row["sequenceNumber"], row["subSequenceNumber"], row["partitionKey"], row["data"])
        for row in rows(records)
    ]
    assert found == [
        ("1", None, "k", b"first"),
        ("2", 0, "a", b"one"),
        ("2", 1, "b", b""),
        ("2", 2, "a", b"\xff\x00"),
        ("3", None, "k", b"last"),
        ("4", 0, "c", b"single"),
    ]
    assert {row["approximateArrivalTimestamp"] for row in rows(records)} == {AT}


def test_they_are_left_together_on_demand():
    together = aggregated(("a", b"one"), ("b", b"two"))
    (row,) = rows([together], deaggregate=False)
    assert row["data"].startswith(MAGIC)
    assert row["subSequenceNumber"] is None


@pytest.mark.parametrize("rest", [b"", b"x", b"x" * 40])
def test_what_only_looks_aggregated_comes_as_it_was(rest):
    odd = record(MAGIC + rest, 7)
    (row,) = rows([odd])
    assert row["data"] == MAGIC + rest
    assert row["sequenceNumber"] == "7"
    assert row["subSequenceNumber"] is None


def test_no_records_are_no_rows():
    assert rows([]) == []


def test_the_places_in_an_aggregated_record():
    plain = [record(b"1"), record(b"2")]
    assert split_aggregated(plain) == (plain, [None, None])
    split, places = split_aggregated([plain[0], aggregated(("a", b"one"), ("b", b"two"))])
    assert places == [None, 0, 1]
    assert split[1]["Data"] == b64encode(b"one").decode()
