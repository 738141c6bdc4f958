"""A real Spark reads a real Kafka: how far it is behind, also of a topic that is not there."""

from collections.abc import Callable, Mapping

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.kafka.page import of_queries
from dagster_sparkscale.lifecycle.recovery import Restart
from dev.kafka import client
from dev.kafka.broker import Kept
from tests.clusters.running import see_ended
from tests.kafka.conftest import Topic
from tests.kafka.following import Following, running
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
Follow = Callable[..., Following]


def caught_up(following: Following, records: int) -> None:
    """Wait until it has read that many records, and says that it is not behind."""

    def done() -> bool:
        query = following.query()
        return query is not None and query.behind_ms == 0 and len(following.values()) >= records

    wait_for(f"{records} records", done, 240, about=following.log)


def its_topic_is_deleted(following: Following, kafka: Kept, topic: str) -> None:
    """Delete the topic, and wait until the driver has ended of that."""
    client.delete_topic(kafka.address, topic)

    def failed() -> bool:
        assert not isinstance(following.assessed().decision, ScaleTo)
        query = following.query()
        assert query is None or query.lag_unknown or query.behind_ms == 0
        return following.driver.state is DriverState.FAILED

    wait_for("the end of the driver", failed, 300, about=following.log)
    assessment = following.assessed()
    print(assessment, following.sighting().log_tail)
    assert isinstance(assessment.decision, Restart | Hold), assessment
    assert "UnknownTopicOrPartitionException: This server" in assessment.decision.reason
    assert topic in following.sighting().log_tail


@pytest.mark.clusters
def test_its_lag_is_told_of_each_partition_and_in_time_until_its_topic_is_deleted(
    follow: Follow, topic: Topic, records: client.Records, kafka: Kept
) -> None:
    """In three acts: a backlog, a batch that is repeated by another driver, no topic any more."""
    t = topic(2)
    records.put(t, (f"early {number}" for number in range(30)), partition=0)
    with running(follow(t, options={"maxOffsetsPerTrigger": 10})) as following:
        caught_up(following, 30)
        query = following.query()
        assert query is not None
        assert query.partitions_behind == {f"{t}-0": 0, f"{t}-1": 0}
        assert (query.source_shards, query.backlog_records, query.lag_unknown) == (2, 0, None)
        status = following.status()
        assert status is not None
        early = [batch for batch in status.batches if batch.records]
        # Nothing was added to them: nobody knows when they came, and that is no zero.
        assert [batch.behind_ms for batch in early] == [None, None, 0]

        before = len(early)
        records.put(t, (f"late {number}" for number in range(60)), partition=1)
        query = following.wait("a lag", lambda query: query.behind_ms)
        assert query.partitions_behind is not None
        assert query.partitions_behind[f"{t}-0"] == 0 < query.partitions_behind[f"{t}-1"] < 60
        assert query.backlog_records == query.partitions_behind[f"{t}-1"]
        status = following.status()
        shown = of_queries(status).replace("![]()", "").replace("\\", "")
        assert shown.startswith("|query|partition|records behind|")
        caught_up(following, 90)
        status = following.status()
        assert status is not None
        late = [batch for batch in status.batches if batch.records][before:]
        assert len(late) == 6, "ten of each batch"
        planned = [batch.completed_at - batch.processing_ms / 1000 for batch in late]
        for batch, at in zip(late[:-1], planned, strict=False):
            # What a batch leaves was there already when the first of these was planned.
            assert batch.behind_ms is not None and batch.behind_ms >= (at - planned[0]) * 1000
        assert late[-1].behind_ms == 0
        assert len(set(following.read())) == 90

        following.pace(900)
        records.put(t, "def", partition=0)
        wait_for("a batch that goes on", lambda: len(following.values()) == 93, about=following.log)
        see_ended(following.cluster, following.stream.name)
        following.pace(0)
        following.start()
        # Nothing comes after it, and so no batch tells what it leaves: its last progress does.
        query = following.wait("a lag", lambda query: query.behind_ms is not None)
        assert (query.behind_ms, query.lag_unknown, query.source_shards) == (0, None, 2)
        status = following.status()
        assert status is not None
        repeated = next(batch for batch in status.batches if batch.records)
        assert (repeated.records, repeated.behind_ms) == (3, None)
        values = following.values()
        assert len(values) == len(set(values)) == 93 and {*"def"} <= {*values}

        its_topic_is_deleted(following, kafka, t)


SECOND_LOG = {"settings": {"spark.sql.streaming.offsetLog.formatVersion": "2"}}
ASYNCHRONOUS = {
    "writer": {
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": "3600000",
        # Spark means it for Kafka's sink alone.
        "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
    }
}


@pytest.mark.clusters
@pytest.mark.parametrize("of", [SECOND_LOG, ASYNCHRONOUS], ids=["second_log", "asynchronous"])
def test_its_lag_is_told_whatever_its_checkpoint_is_written_like(
    follow: Follow, topic: Topic, records: client.Records, of: Mapping[str, Mapping[str, str]]
) -> None:
    t = topic(2)
    records.put(t, (f"early {number}" for number in range(30)), partition=0)
    with running(follow(t, options={"maxOffsetsPerTrigger": 10}, **of)) as following:
        caught_up(following, 30)
        records.put(t, (f"late {number}" for number in range(60)), partition=1)
        query = following.wait("a lag", lambda query: query.behind_ms)
        assert query.partitions_behind is not None
        assert query.partitions_behind[f"{t}-0"] == 0 < query.partitions_behind[f"{t}-1"] < 60
        assert query.backlog_records == query.partitions_behind[f"{t}-1"]
        caught_up(following, 90)
        query = following.query()
        assert query is not None
        assert query.partitions_behind == {f"{t}-0": 0, f"{t}-1": 0}
        # It goes on from what the logs say, whatever they lack.
        see_ended(following.cluster, following.stream.name)
        following.start()
        records.put(t, "abc", partition=0)
        wait_for("the new ones", lambda: {*"abc"} <= {*following.values()}, about=following.log)
        query = following.wait("no lag", lambda query: query.behind_ms == 0)
        assert query.lag_unknown is None


@pytest.mark.clusters
def test_a_topic_that_was_made_anew_is_told_of(
    follow: Follow, topic: Topic, records: client.Records, kafka: Kept
) -> None:
    t = topic()
    records.put(t, "abc")
    with running(follow(t)) as following:
        caught_up(following, 3)
        see_ended(following.cluster, following.stream.name)
        client.delete_topic(kafka.address, t)
        client.create_topic(kafka.address, t)
        records.put(t, "d")
        following.start()

        def failed() -> bool:
            query = following.query()
            assert query is None or query.behind_ms is None, "it would be a lag of another topic"
            return following.driver.state is DriverState.FAILED

        wait_for("the end of the driver", failed, 300, about=following.log)
        reason = following.assessed().decision.reason
        assert "they are not available in Kafka any more" in reason
        assert "offset was changed from 3 to 1" in following.log()
