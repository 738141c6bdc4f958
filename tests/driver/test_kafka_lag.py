"""How far a query is behind Kafka: from offsets to records and to seconds."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.kafka_lag import (
    MOST_TOLD,
    Arrivals,
    KafkaLag,
    NotKnown,
    behind,
    offsets,
)
from dagster_sparkscale.driver.queries import LAG_KEPT_MS
from dagster_sparkscale.driver.reports import SourceReport
from dagster_sparkscale.driver.wire import Query
from tests.driver.test_queries import Told

Offsets = dict[str, int]


def kafka(end: Offsets | None, latest: Offsets | None, topic: str = "t") -> dict[str, Any]:
    """A source's part of a progress, as Spark 4.3 tells it."""
    return {
        "description": f"KafkaV2[Subscribe[{topic}]]",
        "startOffset": None,
        "endOffset": end and {topic: end},
        "latestOffset": latest and {topic: latest},
        "metrics": {"avgOffsetsBehindLatest": "5.0"},
    }


OTHER = {"description": "FileStreamSource[file:/in]", "endOffset": {"logOffset": 3}}


class Looked:
    """Progress of one query, by seconds."""

    def __init__(self) -> None:
        self.lag = KafkaLag()

    def at(self, second: float, *sources: dict[str, Any], asked: Any = 0) -> Any:
        """What the query's sources tell by a trigger of that second; of one source alone, that."""
        progress = {"sources": list(sources), "durationMs": {"latestOffset": asked}}
        reports = self.lag.see(int(second * 1000), progress)
        return reports[0] if len(sources) == 1 else reports

    def behind(self, second: float, *sources: dict[str, Any], asked: Any = 0) -> float | None:
        report = self.at(second, *sources, asked=asked)
        return None if report.behind_ms is None else report.behind_ms / 1000


# Offsets


@pytest.mark.parametrize(
    ("told", "flat"),
    [
        ({"t": {"0": 10, "1": 20}, "a-b": {"0": 3}}, {"t-0": 10, "t-1": 20, "a-b-0": 3}),
        ('{"t":{"0":1}}', {"t-0": 1}),
        ({"t": {}}, None),
        *((other, None) for other in (None, {}, "{}", 5, True, "no JSON", "[" * 100_000, [])),
        *(({"t": {"0": bad}}, None) for bad in (None, "7", True, float("nan"), 2**63, {})),
        ({"logOffset": 1}, None),
    ],
)
def test_offsets_are_read_in_kafkas_shape_alone(told: Any, flat: Offsets | None) -> None:
    assert offsets(told) == flat


@pytest.mark.parametrize(
    ("end", "latest", "why"),
    [
        (None, {"t-0": 5}, "does not tell the newest offsets"),
        ({"t-0": 5}, None, "does not tell the newest offsets"),
        ({"t-0": 5, "t-1": 5}, {"t-0": 5}, "partition t-1 is gone from Kafka"),
        ({"t-2": 5, "t-1": 5}, {"u-0": 5}, "partition t-1 and 1 more are gone from Kafka"),
        ({"t-0": 5}, {"t-0": 5, "t-1": 0}, "partition t-1 is new, and not read yet"),
        ({"t-0": 5, "t-1": 7}, {"t-0": 9, "t-1": 6}, "t-1 is at offset 6, and was read up to 7"),
    ],
)
def test_a_lag_that_is_not_known_says_why(
    end: Offsets | None, latest: Offsets | None, why: str
) -> None:
    with pytest.raises(NotKnown, match=why):
        behind(end, latest)


def test_the_lag_in_records_is_that_of_each_partition() -> None:
    assert behind({"t-0": 5, "t-1": 7}, {"t-0": 9, "t-1": 7}) == {"t-0": 4, "t-1": 0}


# In time


def test_a_position_that_was_the_newest_at_a_moment_is_as_far_behind_as_that_is_ago() -> None:
    looked = Looked()
    assert looked.behind(0, kafka({"0": 100}, {"0": 100})) == 0
    assert looked.behind(10, kafka({"0": 100}, {"0": 200})) == 10
    assert looked.behind(20, kafka({"0": 200}, {"0": 300})) == 10
    assert looked.behind(30, kafka({"0": 250}, {"0": 300})) == 15  # between two of them
    assert looked.behind(40, kafka({"0": 300}, {"0": 300})) == 0


def test_records_that_come_after_a_pause_are_late_since_its_end_and_not_since_its_begin() -> None:
    looked = Looked()
    for second in range(0, 600, 10):
        assert looked.behind(second, kafka({"0": 100}, {"0": 100})) == 0
    assert looked.behind(600, kafka({"0": 100}, {"0": 900})) == 10


def test_the_partition_furthest_behind_counts() -> None:
    looked = Looked()
    looked.at(0, kafka({"0": 10, "1": 10}, {"0": 10, "1": 10}))
    looked.at(10, kafka({"0": 10, "1": 10}, {"0": 10, "1": 10}))
    looked.at(20, kafka({"0": 10, "1": 10}, {"0": 10_000, "1": 10}))
    report = looked.at(30, kafka({"0": 10_000, "1": 10}, {"0": 20_000, "1": 11}))
    assert report == SourceReport(behind_ms=10_000, shards=2)
    assert looked.lag.partitions == {"t-0": 10_000, "t-1": 1}
    assert list(looked.lag.partitions or ()) == ["t-0", "t-1"]


def test_a_backlog_from_before_the_start_is_as_old_as_the_rate_of_arrivals_makes_it() -> None:
    looked = Looked()
    assert looked.behind(0, kafka({"0": 0}, {"0": 1000})) is None
    assert looked.lag.unknown and "partition t-0 is 1000 records behind" in looked.lag.unknown
    assert looked.lag.partitions == {"t-0": 1000}, "in records it is known"
    assert looked.behind(9.999, kafka({"0": 0}, {"0": 1100})) is None  # too short for a rate
    # 10 records a second: the first thousand has taken 100 s.
    assert looked.behind(10, kafka({"0": 0}, {"0": 1100})) == 110
    assert looked.lag.unknown is None
    assert looked.behind(20, kafka({"0": 500}, {"0": 1200})) == 70
    assert looked.behind(30, kafka({"0": 1100}, {"0": 1300})) == 20  # seen by itself


def test_a_backlog_to_which_nothing_is_added_has_no_age() -> None:
    looked = Looked()
    for second in (0, 10, 20):
        assert looked.behind(second, kafka({"0": 0}, {"0": 1000})) is None
    assert looked.behind(30, kafka({"0": 1000}, {"0": 1000})) == 0


def test_an_age_that_no_field_of_64_bits_holds_is_not_told() -> None:
    looked = Looked()
    looked.at(0, kafka({"0": 0}, {"0": 2**62}))
    assert looked.behind(10, kafka({"0": 0}, {"0": 2**62 + 1})) is None


def test_one_partition_whose_lag_has_no_age_leaves_the_whole_unknown() -> None:
    looked = Looked()
    looked.at(0, kafka({"0": 0, "1": 50}, {"0": 10, "1": 50}))
    report = looked.at(20, kafka({"0": 0, "1": 50}, {"0": 10, "1": 90}))
    assert report == SourceReport(behind_ms=None, shards=2)
    assert looked.lag.partitions == {"t-1": 40, "t-0": 10}


def test_a_repeated_batch_tells_its_partitions_and_no_lag() -> None:
    looked = Looked()
    assert looked.at(0, kafka({"0": 7, "1": 9}, None)) == SourceReport(None, 2)
    assert looked.lag.partitions is None
    assert looked.lag.unknown and "as of a batch that is repeated" in looked.lag.unknown
    assert looked.at(5, kafka({"0": 7, "1": 9}, {"0": 7, "1": 9})) == SourceReport(0, 2)
    assert looked.lag.unknown is None


def test_partitions_that_are_added_are_counted_and_their_lag_is_told_once_they_are_read() -> None:
    looked = Looked()
    looked.at(0, kafka({"0": 10}, {"0": 10}))
    assert looked.at(10, kafka({"0": 10}, {"0": 10, "1": 5})) == SourceReport(None, 2)
    assert looked.lag.unknown == "partition t-1 is new, and not read yet"
    assert looked.at(20, kafka({"0": 10, "1": 5}, {"0": 10, "1": 9})) == SourceReport(10_000, 2)


def test_a_topic_that_was_made_anew_has_no_lag_until_its_offsets_are_read() -> None:
    looked = Looked()
    looked.at(0, kafka({"0": 100}, {"0": 100}))
    looked.at(10, kafka({"0": 100}, {"0": 200}))
    assert looked.behind(20, kafka({"0": 100}, {"0": 30})) is None
    assert looked.lag.unknown and "deleted and made anew" in looked.lag.unknown
    # What was seen of the one before says nothing of this one.
    assert looked.behind(30, kafka({"0": 20}, {"0": 40})) == 20
    assert looked.behind(40, kafka({"0": 40}, {"0": 40})) == 0


def test_a_partition_that_was_gone_begins_anew() -> None:
    looked = Looked()
    looked.at(0, kafka({"0": 10, "1": 10}, {"0": 10, "1": 10}))
    assert looked.at(10, kafka({"0": 10, "1": 10}, {"0": 10})) == SourceReport(None, 1)
    assert looked.lag.unknown == "partition t-1 is gone from Kafka"
    looked.at(20, kafka({"0": 10, "1": 0}, {"0": 10, "1": 50}))
    # Not between the 10 of before and the 50 of now.
    assert looked.behind(25, kafka({"0": 10, "1": 20}, {"0": 10, "1": 50})) is None


def test_offsets_are_of_when_kafka_answered() -> None:
    """Spark asks for them for as long as three times a minute where a broker does not answer."""
    looked = Looked()
    looked.at(0, kafka({"0": 100}, {"0": 100}))
    assert looked.behind(10, kafka({"0": 150}, {"0": 200}), asked=90_000) == 50
    for odd in (None, "7", True, -5):
        looked = Looked()
        looked.at(0, kafka({"0": 100}, {"0": 100}))
        assert looked.behind(10, kafka({"0": 100}, {"0": 200}), asked=odd) == 10


def test_a_clock_that_was_set_back_begins_the_history_anew() -> None:
    looked = Looked()
    looked.at(1000, kafka({"0": 100}, {"0": 100}))
    looked.at(1010, kafka({"0": 100}, {"0": 200}))
    assert looked.behind(500, kafka({"0": 100}, {"0": 300})) is None
    assert looked.behind(510, kafka({"0": 300}, {"0": 400})) == 10


# Sources


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


# What is kept


def seen(*moments: tuple[int, int], most: int = 400) -> Arrivals:
    arrivals = Arrivals()
    for at, newest in moments:
        arrivals.see(at, newest, most)
    return arrivals


def test_moments_are_kept_within_bounds_and_reach_back_all_the_same() -> None:
    steady = seen(*((second * 1000, second * 10) for second in range(10_000)), most=16)
    assert len(steady) <= 16
    # As it was steady, a line through few of them says the same.
    for second in (0, 1, 5000, 9998):
        assert steady.left_at(second * 10) == pytest.approx(second * 1000)


def test_of_a_partition_where_nothing_comes_two_moments_are_kept() -> None:
    arrivals = seen(*((second * 1000, 7) for second in range(1000)), (1_000_000, 8))
    assert len(arrivals) == 3
    assert arrivals.left_at(7) == 999_000


def test_a_pause_begins_and_ends_when_it_was_seen_to() -> None:
    arrivals = seen((0, 1), (1000, 7), (2000, 7), (3000, 7), (4000, 8))
    assert len(arrivals) == 4
    assert arrivals.left_at(7) == 3000


def test_no_more_is_left_out_than_has_to_be() -> None:
    moments = [(second * 1000, second) for second in range(5)]
    assert len(seen(*moments[:4], most=4)) == len(seen(*moments, most=4)) == 4


def test_of_a_topic_with_many_partitions_few_moments_of_each_are_kept() -> None:
    looked = Looked()
    for second in range(30):
        latest = {str(number): second for number in range(4000)}
        looked.at(second, kafka(dict.fromkeys(latest, 0), latest))
    [source] = looked.lag._sources.values()
    assert {len(arrivals) for arrivals in source._arrivals.values()} <= set(range(5, 9))


def test_a_rate_is_that_of_all_that_was_seen_and_of_long_enough() -> None:
    at = 1_800_000_000_000
    assert seen((at, 10), (at + 9999, 20)).left_at(5) is None
    assert seen((at, 10), (at + 10_000, 20)).left_at(5) == at - 5000
    assert seen((0, 10), (5000, 10), (20_000, 30)).left_at(5) == -5000


def test_what_no_position_needs_any_more_is_forgotten() -> None:
    arrivals = seen((0, 10), (1000, 20), (2000, 30), (3000, 40))
    arrivals.forget_before(9)
    assert len(arrivals) == 4
    arrivals.forget_before(25)
    assert len(arrivals) == 3
    assert arrivals.left_at(25) == 1500
    arrivals.forget_before(40)
    assert len(arrivals) == 1


def test_the_same_progress_told_twice_counts_once() -> None:
    arrivals = seen((0, 10), (1000, 20), (1000, 20))
    assert len(arrivals) == 2 and arrivals.left_at(15) == 500
    assert seen((0, 10), (1000, 20), (2000, 30), (2000, 40)).left_at(35) == 1750


def test_a_partition_of_which_nothing_was_seen_tells_nothing() -> None:
    assert Arrivals().left_at(5) is None


steps = st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 10_000)), min_size=2, max_size=60)


@given(steps, st.integers(4, 20), st.floats(0, 1))
def test_the_moment_is_between_those_at_which_the_offset_was_seen_before_and_after(
    increments: Sequence[tuple[int, int]], most: int, where: float
) -> None:
    moments, at, newest = [], 0, 0
    for time, records in increments:
        at, newest = at + time, newest + records
        moments.append((at, newest))
    arrivals = seen(*moments, most=most)
    first, last = moments[0][1], moments[-1][1]
    position = first + int((last - first) * where)
    if position < last:
        left = arrivals.left_at(position)
        assert left is not None and moments[0][0] <= left <= moments[-1][0]
        # Later positions are left later, and forgetting changes nothing.
        if position + 1 < last:
            assert left <= (arrivals.left_at(position + 1) or 0)
        arrivals.forget_before(position)
        assert arrivals.left_at(position) == pytest.approx(left)


@given(steps)
def test_a_query_that_has_read_all_is_not_behind(increments: Sequence[tuple[int, int]]) -> None:
    looked, at, newest = Looked(), 0, 0
    for time, records in increments:
        at, newest = at + time, newest + records
        assert looked.behind(at / 1000, kafka({"0": newest}, {"0": newest})) == 0


# In the status


def listed(told: Told) -> Query:
    return told.queries.listed({})[0]


def test_a_query_tells_how_far_it_is_behind_kafka() -> None:
    told = Told()
    told.started()
    assert (listed(told).partitions_behind, listed(told).lag_unknown) == (None, None)
    told.batch(3, 1, sources=[kafka({"0": 5}, {"0": 5})])
    told.batch(6, 1, sources=[kafka({"0": 5}, {"0": 25})])
    query = listed(told)
    assert (query.behind_ms, query.source_shards, query.backlog_records) == (3000, 1, 20)
    assert (query.partitions_behind, query.lag_unknown) == ({"t-0": 20}, None)
    assert [batch.behind_ms for batch in told.batches] == [0, 3000]


def test_while_a_query_waits_for_more_records_its_lag_grows() -> None:
    """As with minOffsetsPerTrigger: no batch, and yet something to read."""
    told = Told()
    told.started()
    told.batch(0, 1, sources=[kafka({"0": 5}, {"0": 5})])
    told.idle(12)
    told.reported(12, [kafka({"0": 5}, {"0": 9})])
    told.idle(24)
    told.reported(24, [kafka({"0": 5}, {"0": 9})])
    query = listed(told)
    assert (query.behind_ms, query.backlog_records) == (24_000, 4)
    assert query.partitions_behind == {"t-0": 4}


def test_a_lag_is_not_known_any_more_when_nothing_is_heard_of_the_query() -> None:
    told = Told()
    told.started()
    told.batch(0, 1, sources=[kafka({"0": 5}, {"0": 5})])
    told.now = 1 + LAG_KEPT_MS / 1000
    assert listed(told).behind_ms == 0
    told.now += 0.001
    query = listed(told)
    assert (query.behind_ms, query.backlog_records, query.partitions_behind) == (None, None, None)
    assert query.lag_unknown and "nothing was heard of the query for 60 s" in query.lag_unknown
    assert query.source_shards == 1, "how many there are does not change by that"
    told.idle(61)
    assert listed(told).behind_ms == 0


def test_where_batches_have_long_intervals_a_lag_is_told_for_as_long_as_three() -> None:
    told = Told(interval_ms=300_000)
    told.started()
    told.batch(0, 1, sources=[kafka({"0": 5}, {"0": 5})])
    told.now = 901
    assert listed(told).behind_ms == 0
    told.now = 902
    assert listed(told).behind_ms is None


def test_only_of_kafka_a_lag_grows_old() -> None:
    told = Told()
    told.started()
    told.batch(0, 1, sources=[{"latestOffset": {"behind_ms": 70, "shards": 4}}])
    told.now = 1000
    assert (listed(told).behind_ms, listed(told).lag_unknown) == (70, None)


def test_a_query_that_has_ended_is_not_behind() -> None:
    told = Told()
    told.started()
    told.batch(0, 1, sources=[kafka({"0": 5}, {"0": 9})])
    told.died(500, "org.apache.kafka.common.errors.TimeoutException: no answer\n\tat a.B.c(B:1)")
    query = listed(told)
    assert (query.behind_ms, query.partitions_behind, query.lag_unknown) == (None, None, None)
    assert query.error and "no answer" in query.error
