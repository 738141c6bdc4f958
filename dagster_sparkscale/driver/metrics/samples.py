"""The metrics of an agent, and their values in its answer. Pure.

The agent renders them itself (`GET /metrics`), and `sparkscale serve` from what agents answer, with
the same names and meanings. None is "not measured": no sample, never a zero.
"""

from collections.abc import Iterable, Iterator

from dagster_sparkscale.driver.wire import Answer, Query, Totals

from .exposition import Metric, Sample, sample

STALE_AFTER = 30.0
"""Seconds after which Spark's last answer is no measurement any more, as in `spark/looks.py`."""
MOST_QUERIES = 50
"""Active queries with samples of their own, at most: programs make their names up."""
MOST_SOURCES = 50
"""Limits of sources with samples of their own, at most: programs name the sources."""

_STREAM, _QUERY = ("stream",), ("stream", "query")

EPOCH = Metric(
    *("sparkscale_driver_epoch", "gauge", _STREAM),
    "Number of the driver's start: each start of the stream has a higher one.",
)
STARTED = Metric(
    *("sparkscale_driver_start_timestamp_seconds", "gauge", _STREAM), "When the driver started."
)
EXECUTORS = Metric(
    *("sparkscale_executors", "gauge", ("stream", "kind")),
    "Executors: registered with the driver, requested of the cluster manager, leaving (registered "
    "still), and the minimum and maximum in force.",
)
QUERIES = Metric(
    *("sparkscale_queries", "gauge", ("stream", "state")),
    "Queries that are active, and ended ones that died of an error.",
)
LAG = Metric(
    *("sparkscale_lag_seconds", "gauge", _QUERY),
    "How far a query is behind the tip of its source, by time.",
)
BACKLOG = Metric(
    *("sparkscale_backlog_records", "gauge", _QUERY),
    "Records that the sources have and no batch has taken yet.",
)
PENDING = Metric(
    *("sparkscale_pending_batches", "gauge", _QUERY), "DStreams: batches due and not completed."
)
INTERVAL = Metric(
    *("sparkscale_batch_interval_seconds", "gauge", _QUERY),
    "Batch duration or trigger interval of the running program.",
)
IN_PROGRESS = Metric(
    *("sparkscale_batch_in_progress_seconds", "gauge", _QUERY),
    "Age of the batch in progress; no series while there is none.",
)
HEARD = Metric(
    *("sparkscale_query_heard_timestamp_seconds", "gauge", _QUERY),
    "When a query last completed a batch or found no data, or when it began.",
)
WATERMARK = Metric(
    *("sparkscale_watermark_timestamp_seconds", "gauge", _QUERY),
    "Event-time watermark of the query's last batch.",
)
STATE_ROWS = Metric(*("sparkscale_state_rows", "gauge", _QUERY), "Rows of the query's state.")
STATE_BYTES = Metric(
    *("sparkscale_state_bytes", "gauge", _QUERY),
    "Memory that the query's state uses on executors, as Spark tells it.",
)
STATE_PARTITIONS = Metric(
    *("sparkscale_state_partitions", "gauge", _QUERY), "Partitions of the query's state."
)
BATCHES = Metric(
    *("sparkscale_batches_total", "counter", ("stream", "query", "result")),
    "Batches with work since the driver started, completed or failed.",
)
PROCESSING = Metric(
    *("sparkscale_batch_processing_seconds_total", "counter", _QUERY),
    "Processing time of the completed batches since the driver started.",
)
RECORDS = Metric(
    *("sparkscale_input_records_total", "counter", _QUERY),
    "Records of the completed batches since the driver started.",
)
LOST = Metric(
    *("sparkscale_data_lost_total", "counter", _QUERY),
    "How many times data was gone before it could be read.",
)
RATE_LIMIT = Metric(
    *("sparkscale_rate_limit_records_per_second", "gauge", ("stream", "query", "source")),
    "Records per second that a source may take; no series where it has no limit.",
)
RECEIVERS = Metric(
    *("sparkscale_receivers", "gauge", ("stream", "state")),
    "DStreams: receivers that run, and that are away.",
)

AGENT = (
    *(EPOCH, STARTED, EXECUTORS, QUERIES, LAG, BACKLOG, PENDING, INTERVAL, IN_PROGRESS, HEARD),
    *(WATERMARK, STATE_ROWS, STATE_BYTES, STATE_PARTITIONS, BATCHES, PROCESSING, RECORDS, LOST),
    *(RATE_LIMIT, RECEIVERS),
)
"""All that an agent tells."""


def samples(answer: Answer) -> Iterator[Sample]:
    """The values in an agent's answer."""
    stream = answer.stream
    yield from sample(EPOCH, answer.epoch, stream=stream)
    yield from sample(STARTED, answer.started_at, stream=stream)
    spark = answer.spark
    if spark.age is not None and spark.age <= STALE_AFTER:
        yield from sample(EXECUTORS, spark.registered, stream=stream, kind="registered")
        yield from sample(EXECUTORS, spark.requested, stream=stream, kind="requested")
        if spark.registered is not None:
            yield from sample(EXECUTORS, spark.removing, stream=stream, kind="leaving")
    active = [query for query in answer.queries if query.active][:MOST_QUERIES]
    if answer.queries:
        died = sum(1 for query in answer.queries if not query.active and query.error is not None)
        number = sum(1 for query in answer.queries if query.active)
        yield from sample(QUERIES, number, stream=stream, state="active")
        yield from sample(QUERIES, died, stream=stream, state="died")
    for query in active:
        yield from _of_query(stream, query)
    names = {query.name for query in active}
    for totals in answer.totals or ():
        if totals.query in names:
            yield from _of_batches(stream, totals)
    yield from _of_sources(answer, names)


def _of_query(stream: str, query: Query) -> Iterator[Sample]:
    state = query.state
    values = (
        (LAG, _seconds(query.behind_ms)),
        (BACKLOG, query.backlog_records),
        (PENDING, query.pending_batches),
        (INTERVAL, _seconds(query.interval_ms)),
        (IN_PROGRESS, _seconds(query.running_ms)),
        (HEARD, query.heard_at),
        (WATERMARK, query.watermark),
        (STATE_ROWS, state.rows if state else None),
        (STATE_BYTES, state.bytes if state else None),
        (STATE_PARTITIONS, state.partitions if state else None),
        (LOST, query.source_lost),
    )
    for metric, value in values:
        yield from sample(metric, value, stream=stream, query=query.name)


def _of_batches(stream: str, totals: Totals) -> Iterator[Sample]:
    labels = {"stream": stream, "query": totals.query}
    yield from sample(BATCHES, totals.completed, **labels, result="completed")
    yield from sample(BATCHES, totals.failed, **labels, result="failed")
    yield from sample(PROCESSING, _seconds(totals.processing_ms), **labels)
    yield from sample(RECORDS, totals.records, **labels)


def _of_sources(answer: Answer, queries: Iterable[str]) -> Iterator[Sample]:
    stream, shown = answer.stream, set[tuple[str, str]]()
    for limit in answer.limits:
        query = limit.query or ""
        if limit.rate is None or (query and query not in queries) or len(shown) >= MOST_SOURCES:
            continue
        if (query, limit.source) not in shown:
            shown.add((query, limit.source))
            labels = {"stream": stream, "query": query, "source": limit.source}
            yield from sample(RATE_LIMIT, limit.rate, **labels)
    if answer.receivers:
        running = sum(1 for each in answer.receivers if each.executor is not None)
        yield from sample(RECEIVERS, running, stream=stream, state="running")
        away = len(answer.receivers) - running
        yield from sample(RECEIVERS, away, stream=stream, state="away")


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
