"""The wire between a driver and Dagster, across releases: neither side waits for the other."""

import json
from typing import Any

from dagster_sparkscale.driver.wire import Answer, Batch, Executor, Query, Receiver, Relaunch, Spark
from dagster_sparkscale.observe.status import Status

FIRST: dict[str, Any] = {
    "api": 1,
    "stream": "clicks",
    "epoch": 3,
    "phase": "running",
    "now": 1764000000.5,
    "started_at": 1763990000.25,
    "app_id": "app-20251124120000-0001",
    "ui_url": "http://127.0.0.1:4040",
    "spark": {
        "age": 0.125,
        "registered": 2,
        "requested": 4,
        "removing": 1,
        "blocked": "executor 1 holds receivers",
        "executors": [
            {"id": "1", "host": "127.0.0.1", "cores": 2, "active_tasks": 3, "receivers": 1}
        ],
    },
    "rates": {"clicks": {"maxRecordsPerTrigger": 1000, "maxSpanPerTrigger": 2.5}},
    "queries": [
        {
            "name": "counts",
            "active": True,
            "interval_ms": 10000,
            "running_ms": 500,
            "pending_batches": None,
            "backlog_records": 7,
            "behind_ms": 1234,
            "source_shards": 4,
            "source_lost": 0,
            "error": None,
        }
    ],
    "batches": [
        {
            "query": "counts",
            "completed_at": 1763999999.5,
            "processing_ms": 900,
            "scheduling_ms": 10,
            "records": 100,
            "failed": False,
            "triggers": 1,
            "batch_id": 12,
            "behind_ms": 1300,
        }
    ],
    "last_seq": 77,
}
"""As an agent wrote it before there was a module for the wire. Never to be changed."""

QUERY = Query("counts", True, 10000, 500, None, 7, None, 1234, 4, 0)
BATCH = Batch("counts", 1763999999.5, 900, 10, 100, False, 1, 12, 1300)
EXECUTOR = Executor("1", "127.0.0.1", 2, 3, 1)


def test_a_driver_that_runs_is_understood_after_dagster_was_updated() -> None:
    status = Status.from_json(json.dumps(FIRST))
    assert (status.stream, status.epoch, status.phase) == ("clicks", 3, "running")
    assert (status.registered, status.requested, status.removing) == (2, 4, 1)
    assert (status.queries, status.batches, status.executors) == ((QUERY,), (BATCH,), (EXECUTOR,))
    # What it did not tell yet is not known.
    assert (status.operation, status.spark_version, status.ages) == (None, None, None)
    assert (status.missing, status.lacks) == ((), ())
    assert (status.receivers, status.relaunches) == (None, ())


def test_what_was_added_since_arrives() -> None:
    answer = Answer(
        **{"stream": "clicks", "epoch": 3, "phase": "running", "now": 1.0, "started_at": 0.0},
        **{"last_seq": 0, "operation": 7, "spark_version": "4.3.0"},
        missing=("where receivers run",),
        lacks=("receivers",),
        ages={"executors": 0.5, "receivers": None},
        receivers=(Receiver(0, "SocketReceiver-0", "1", "host", 0.5, None, 12.5), Receiver(1)),
        relaunches=(Relaunch(0, "move", "2", 0.25, "1", "1", 0.25, operation=6),),
    )
    status = Status.from_json(json.dumps(answer.as_json()))
    assert (status.operation, status.spark_version) == (7, "4.3.0")
    assert (status.missing, status.ages) == (answer.missing, answer.ages)
    assert status.lacks == answer.lacks
    assert (status.receivers, status.relaunches) == (answer.receivers, answer.relaunches)


def test_what_it_does_not_tell_yet_is_unknown() -> None:
    status = Status.from_json(json.dumps(FIRST))
    assert status.queries[0].trigger is status.queries[0].heard_at is None
    assert status.batches[0].planning_ms is None


def test_a_new_driver_is_understood_before_it_was() -> None:
    """Whatever the first readers looked for is there, of the same name and type."""
    answer = Answer(
        stream="clicks",
        epoch=3,
        phase="running",
        now=1764000000.5,
        started_at=1763990000.25,
        last_seq=77,
        app_id="app-20251124120000-0001",
        ui_url="http://127.0.0.1:4040",
        spark=Spark(0.125, 2, 4, 1, "executor 1 holds receivers", (EXECUTOR,)),
        queries=(QUERY,),
        batches=(BATCH,),
        rates={"clicks": {"maxRecordsPerTrigger": 1000, "maxSpanPerTrigger": 2.5}},
    )
    written = json.loads(json.dumps(answer.as_json()))
    assert at_least(FIRST, written)


def at_least(wanted: Any, given: Any) -> bool:
    if isinstance(wanted, dict):
        return all(name in given and at_least(wanted[name], given[name]) for name in wanted)
    if isinstance(wanted, list):
        return len(wanted) == len(given) and all(map(at_least, wanted, given))
    return type(wanted) is type(given) and bool(wanted == given)
