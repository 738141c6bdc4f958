"""Which sources count, and what several of them come to."""

import json

import pytest

from dagster_sparkscale.driver.batches.reports import SourceReport
from dagster_sparkscale.driver.kafka.lag import MOST_TOLD
from tests.driver.kafka_progress import OTHER, Looked, kafka


def test_several_topics_and_sources_are_one_lag() -> None:
    looked = Looked()
    two = {"description": "KafkaV2[SubscribePattern[t.*]]"}
    both = {"a": {"0": 5}, "b": {"0": 6}}
    looked.at(0, {**two, "endOffset": both, "latestOffset": both}, kafka({"0": 1}, {"0": 1}), OTHER)
    later = {"a": {"0": 8}, "b": {"0": 6}}
    reports = looked.at(
        10, {**two, "endOffset": both, "latestOffset": later}, kafka({"0": 1}, {"0": 5}), OTHER
    )
    assert reports == [SourceReport(10_000, 2), SourceReport(10_000, 1), None]
    assert looked.lag.partitions == {"t-0": 4, "a-0": 3, "b-0": 0}


def test_where_one_source_does_not_know_its_lag_the_query_does_not() -> None:
    looked = Looked()
    caught_up, unknown = kafka({"0": 5}, {"0": 5}), kafka({"0": 5}, None, "u")
    for order in ([caught_up, unknown], [unknown, caught_up]):
        assert [report.behind_ms for report in looked.at(0, *order)] == [None, None]
        assert looked.lag.partitions is None
        assert looked.lag.unknown


def test_two_sources_that_read_one_topic_are_as_far_behind_as_the_last() -> None:
    looked = Looked()
    looked.at(0, kafka({"0": 2}, {"0": 9}), kafka({"0": 5}, {"0": 9}))
    assert looked.lag.partitions == {"t-0": 7}


@pytest.mark.parametrize(
    ("description", "ours"),
    [
        ("KafkaV2[Subscribe[t]]", True),
        ("KafkaSourceV1[Assign[t-0]]", True),
        ("KafkaSource[Subscribe[t]]", True),
        ("org.example.NoKafka[t]", False),
        ("PythonMicroBatchStream", False),
        (None, False),
    ],
)
def test_only_sparks_own_sources_for_kafka_have_partitions_that_are_counted(
    description: str | None, ours: bool
) -> None:
    looked = Looked()
    report = looked.at(0, {**kafka({"0": 5}, {"0": 5}), "description": description})
    assert report == (SourceReport(0, 1) if ours else None)
    assert looked.lag.reads == ours


def test_a_source_for_kafka_behind_another_is_seen() -> None:
    looked = Looked()
    assert looked.at(0, OTHER, kafka({"0": 5}, {"0": 5})) == [None, SourceReport(0, 1)]
    assert looked.lag.partitions == {"t-0": 0}


def test_of_a_source_that_tells_no_offsets_nothing_is_known() -> None:
    looked = Looked()
    assert looked.at(0, kafka(None, None)) == SourceReport(None, None)


def test_texts_of_json_are_read_as_well() -> None:
    told = kafka({"0": 5}, {"0": 9})
    texts = {key: json.dumps(told[key]) for key in ("endOffset", "latestOffset")}
    looked = Looked()
    looked.at(0, {**told, **texts})
    assert looked.lag.partitions == {"t-0": 4}


def test_of_many_partitions_those_furthest_behind_are_told() -> None:
    looked = Looked()
    latest = {str(number): number for number in range(50)}
    looked.at(0, kafka(dict.fromkeys(latest, 0), latest))
    told = looked.lag.partitions or {}
    assert len(told) == MOST_TOLD
    assert list(told)[:2] == ["t-49", "t-48"] and min(told.values()) == 30
    looked.at(1, kafka({"1": 0, "0": 0}, {"1": 5, "0": 5}))
    assert list(looked.lag.partitions or ()) == ["t-0", "t-1"]
