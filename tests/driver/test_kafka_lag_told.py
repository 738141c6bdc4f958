"""What the status tells of the lag of a query."""

from dagster_sparkscale.driver.batches.queries import LAG_KEPT_MS
from dagster_sparkscale.driver.wire import Query
from tests.driver.kafka_progress import kafka
from tests.driver.told import Told


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
    assert query.behind_at_least_ms is None
    told.batch(9, 1, sources=[kafka({"0": 5}, {"0": 25, "1": 3})])
    assert (listed(told).behind_ms, listed(told).behind_at_least_ms) == (None, 6000)
    told.batch(12, 1, sources=[kafka({"0": 5}, {"0": 25})])
    assert [batch.behind_ms for batch in told.batches] == [0, 3000, None, 9000]


def test_where_the_lag_of_kafka_is_not_known_no_other_source_stands_for_it() -> None:
    told = Told()
    told.started()
    other = {"latestOffset": {"behind_ms": 70, "shards": 4}}
    told.batch(0, 1, sources=[kafka({"0": 5}, {"0": 5}), other])
    assert listed(told).behind_ms == 70
    told.batch(3, 1, sources=[kafka({"0": 6}, None), other])
    query = listed(told)
    assert query.behind_ms is None and query.lag_unknown
    assert told.batches[-1].behind_ms is None


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
