"""A real Kafka that is away for a while: nothing is known meanwhile, and nothing is lost."""

from collections.abc import Callable

import pytest

from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.observe.findings import Health
from dev.kafka import client
from dev.kafka.broker import Kept
from tests.kafka.conftest import Topic
from tests.kafka.following import Following, running
from tests.kafka.test_lag import caught_up
from tests.waiting import wait_for
from tests.watch.hook_server import free_port

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.clusters]


def test_a_broker_that_can_t_be_reached_is_told_of(
    follow: Callable[..., Following], kafka: Kept
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    with running(follow("clicks", servers=nowhere)) as following:

        def told() -> bool:
            found = following.assessed().health[Health.BATCHES_COMPLETING]
            return found.passed is False and "Getting offsets from KafkaV2[" in found.text

        wait_for("it to be told", told, 120, every=1.0, about=following.log)
        decision = following.assessed().decision
        assert isinstance(decision, Hold), decision  # no executor would help


def test_while_the_broker_is_away_the_lag_is_unknown_and_then_all_is_read(
    follow: Callable[..., Following], topic: Topic, records: client.Records, kafka: Kept
) -> None:
    t = topic(2)
    records.put(t, (f"before {number}" for number in range(20)))
    with running(follow(t)) as following:
        caught_up(following, 20)
        try:
            kafka.stop()

            def unknown() -> bool:
                assessed = following.assessed()
                decision = assessed.decision
                # R was low before it, and two executors would be too many. That nothing runs, Spark
                # may tell as late as by the next heartbeat of an executor, after ten seconds.
                if assessed.evaluation is not None and assessed.evaluation.active_tasks == 0:
                    is_left = isinstance(decision, Hold) or decision.operation != "rescale"
                    assert is_left, decision
                query = following.query()
                return query is not None and query.lag_unknown is not None

            wait_for("its lag to be unknown", unknown, 240, every=1.0, about=following.log)
            query = following.query()
            assert query is not None and query.lag_unknown is not None
            assert "nothing was heard of the query" in query.lag_unknown
            assert query.behind_ms is query.backlog_records is query.partitions_behind is None
            assert query.source_shards == 2
            seen = following.assessed().evaluation
            assert seen is not None and seen.lag is None and seen.active_tasks == 0
        finally:
            kafka.start()
        records.put(t, (f"after {number}" for number in range(20)))
        caught_up(following, 40)
        assert len(following.read()) == len(set(following.read())) == 40
