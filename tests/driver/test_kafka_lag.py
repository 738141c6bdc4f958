"""How far a query is behind Kafka: from offsets to records and to seconds."""

from typing import Any

import pytest

from dagster_sparkscale.driver.batches.offsets import NotKnown, behind, offsets
from dagster_sparkscale.driver.batches.reports import SourceReport
from tests.driver.kafka_progress import Looked, Offsets, kafka

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


def test_what_is_known_of_the_other_partitions_is_a_lower_bound() -> None:
    looked = Looked()
    looked.at(0, kafka({"0": 10, "1": 0}, {"0": 10, "1": 0}))
    looked.at(40, kafka({"0": 10, "1": 5}, {"0": 50, "1": 5}))
    assert looked.lag.at_least_ms is None, "all is known"
    new = kafka({"0": 10, "1": 5}, {"0": 90, "1": 9, "2": 7})
    assert looked.behind(50, new) is None and looked.lag.at_least_ms == 50_000
    since_before = kafka({"0": 10, "1": 5, "2": 1}, {"0": 90, "1": 9, "2": 7})
    assert looked.behind(52, since_before) is None and looked.lag.at_least_ms == 52_000
    gone = kafka({"0": 10, "1": 5, "2": 1}, {"1": 9, "2": 7})
    assert looked.behind(55, gone) is None and looked.lag.at_least_ms == 15_000
    nothing = kafka({"0": 10, "1": 5, "2": 1}, None)
    assert looked.behind(58, nothing) is None and looked.lag.at_least_ms is None
    looked.lag.end()
    assert looked.lag.at_least_ms is None


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
