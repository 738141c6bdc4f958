"""A status comes back from the wire as it was sent, whatever is in it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.status import Batch, Executor, Query, Spark, Status

numbers = st.integers(0, 2**63 - 1)
maybe = st.none() | numbers
queries = st.builds(
    Query,
    st.text(),
    st.booleans(),
    *[maybe] * 4,
    st.none() | st.text(),
    *[maybe] * 3,
)
batches = st.builds(
    Batch,
    st.text(),
    st.floats(0, 1e12),
    numbers,
    maybe,
    maybe,
    st.booleans(),
    st.integers(1, 10**6),
    *[maybe] * 2,
)
executors = st.builds(Executor, st.text(), st.text(), numbers, numbers, numbers)
statuses = st.builds(
    Status,
    stream=st.text(),
    epoch=numbers,
    phase=st.text(),
    now=st.floats(0, 1e12),
    started_at=st.floats(0, 1e12),
    app_id=st.none() | st.text(),
    ui_url=st.none() | st.text(),
    spark=st.builds(
        Spark,
        age=st.none() | st.floats(0, 1e9),
        registered=maybe,
        requested=maybe,
        removing=numbers,
        blocked=st.none() | st.text(),
        executors=st.lists(executors, max_size=2).map(tuple),
    ),
    queries=st.lists(queries, max_size=2).map(tuple),
    batches=st.lists(batches, max_size=2).map(tuple),
    last_seq=numbers,
    rates=st.none()
    | st.dictionaries(st.text(), st.dictionaries(st.text(), numbers | st.floats(0, 1e9))),
    reconfigurations=st.just(()),
)


def written(status: Status) -> dict:
    """The answer an agent would send; the names on the wire, spelt out here once more."""
    return {
        "stream": status.stream,
        "epoch": status.epoch,
        "phase": status.phase,
        "now": status.now,
        "started_at": status.started_at,
        "app_id": status.app_id,
        "ui_url": status.ui_url,
        "spark": {
            "age": status.spark_age,
            "registered": status.registered,
            "requested": status.requested,
            "removing": status.removing,
            "blocked": status.blocked,
            "executors": [
                {
                    name: getattr(e, name)
                    for name in ("id", "host", "cores", "active_tasks", "receivers")
                }
                for e in status.executors
            ],
        },
        "queries": [
            {
                name: getattr(q, name)
                for name in (
                    *("name", "active", "interval_ms", "running_ms", "pending_batches"),
                    *("backlog_records", "error", "behind_ms", "source_shards", "source_lost"),
                    *("trigger", "heard_at", "doing"),
                )
            }
            for q in status.queries
        ],
        "batches": [
            {
                name: getattr(b, name)
                for name in (
                    *("query", "completed_at", "processing_ms", "scheduling_ms", "records"),
                    *("failed", "triggers", "batch_id", "behind_ms", "planning_ms"),
                )
            }
            for b in status.batches
        ],
        "last_seq": status.last_seq,
        "rates": status.rates,
        "reconfigurations": [],
    }


@given(statuses)
def test_a_status_comes_back_from_the_wire_as_it_was(status):
    assert Status.from_json(json.dumps(written(status))) == status
