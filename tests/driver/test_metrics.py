"""What Prometheus may scrape of an agent: who may, what it reads, what it never reads."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.batches.history import TOTALS, History
from dagster_sparkscale.driver.batches.progress import watermark
from dagster_sparkscale.driver.metrics.exposition import Metric, Sample, exposition
from dagster_sparkscale.driver.metrics.samples import (
    AGENT,
    MOST_QUERIES,
    MOST_SOURCES,
    samples,
)
from dagster_sparkscale.driver.metrics.token import read_token
from dagster_sparkscale.driver.server import MAX_READERS, MAX_STRANGERS, Server
from dagster_sparkscale.driver.wire import (
    Answer,
    Batch,
    Limit,
    Query,
    QueryState,
    Receiver,
    Spark,
    Totals,
)
from tests.driver.serving import TOKEN, all_of, ask, client_of, connected, is_answered
from tests.driver.told import T0, Told, stamp
from tests.waiting import HANGS, wait_for

READ = read_token(TOKEN)
SCRAPE = f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {READ}\r\n\r\n".encode()


class Scrapes:
    """Scrapes that wait for Spark until they may go on."""

    def __init__(self, agent: Agent) -> None:
        self.begun, self.go_on = threading.Semaphore(0), threading.Event()
        self._status = agent.status

    def status(
        self, since: int | None = None, window: float | None = None, *, batches: bool = True
    ) -> Answer:
        if not batches:  # as a scrape has it
            self.begun.release()
            self.go_on.wait(HANGS)
        return self._status(since, window, batches=batches)


@pytest.fixture
def scrapes(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scrapes]:
    made = Scrapes(agent)
    monkeypatch.setattr(agent, "status", made.status)
    yield made
    made.go_on.set()


def scraped(server: Server, token: str | None = READ, path: str = "/metrics") -> tuple[int, str]:
    with contextlib.closing(client_of(server)) as client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read().decode()


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples of a text, by name and labels, as Prometheus's own client reads them."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type != "unknown", family
        for each in family.samples:
            key = (each.name, tuple(sorted(each.labels.items())))
            assert key not in found, key
            found[key] = each.value
    return found


def of(answer: Answer) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return parsed(exposition(samples(answer)))


ANSWER = Answer("clicks", 4, "running", 2000.0, 1000.0, 0)
COUNTS = Query(
    "counts",
    active=True,
    interval_ms=10_000,
    running_ms=1500,
    backlog_records=7,
    behind_ms=2500,
    source_lost=0,
    heard_at=1999.5,
    watermark=1900.0,
    state=QueryState(rows=12, bytes=4096, partitions=8),
)
FULL = replace(
    ANSWER,
    spark=Spark(age=0.5, registered=3, requested=4, removing=1),
    queries=(COUNTS,),
    totals=(Totals("counts", completed=5, failed=1, processing_ms=20_500, records=500),),
    limits=(Limit("kinesis", "counts", 250.0), Limit("free", "counts")),
    receivers=(Receiver(0, executor="1"), Receiver(1)),
)


class TestWhoReads:
    def test_the_token_for_reading_reads_metrics(self, server: Server) -> None:
        code, text = scraped(server)
        assert code == 200
        assert parsed(text)[("sparkscale_driver_epoch", (("stream", "clicks"),))] == 4

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            *(("GET", "/v1/status"), ("PUT", "/v1/executors"), ("PUT", "/v1/rates")),
            *(("POST", "/v1/receivers/0/move"), ("POST", "/v1/stop"), ("POST", "/metrics")),
            *(("PUT", "/metrics"), ("GET", "/metrics/"), ("GET", "//x/metrics"), ("GET", "//[")),
        ],
    )
    def test_it_is_good_for_nothing_else(
        self, server: Server, stops: list[Any], method: str, path: str
    ) -> None:
        body = {"epoch": 4, "target": 1, "graceful": False}
        with contextlib.closing(client_of(server)) as client:
            code, answer = ask(client, method, path, body, token=READ)
        assert (code, list(answer)) == (401, ["error"])
        assert stops == []

    @pytest.mark.parametrize("token", [None, "", "wrong", TOKEN, READ[:-1], READ + "0", "ÿ"])
    def test_without_it_nothing_is_read_by_the_one_that_controls_neither(
        self, server: Server, token: str | None
    ) -> None:
        code, text = scraped(server, token)
        assert code == 401
        assert list(json.loads(text)) == ["error"] and "sparkscale_" not in text

    def test_a_query_of_the_url_changes_nothing(self, server: Server) -> None:
        assert scraped(server, path="/metrics?x=%2F")[0] == 200
        assert scraped(server, TOKEN, path="/metrics?x")[0] == 401

    def test_each_token_has_another(self) -> None:
        assert len({read_token(f"{n}" * 20) for n in range(9)} | {READ}) == 10
        assert TOKEN not in READ and len(READ) == 64

    def test_a_connection_that_has_read_makes_room_for_the_next(self, server: Server) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(3 * MAX_READERS):
                reader = stack.enter_context(connected(server))
                reader.sendall(SCRAPE)
                # Each is answered once, and then closed by the server.
                assert b"sparkscale_driver_epoch" in all_of(reader)

    def test_who_waits_for_metrics_is_ended_by_no_stranger(
        self, server: Server, scrapes: Scrapes
    ) -> None:
        """Spark may take seconds for the answer, in which strangers come."""
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(connected(server))
            reader.sendall(SCRAPE)
            assert scrapes.begun.acquire(timeout=HANGS)
            for _ in range(2 * MAX_STRANGERS):
                stack.enter_context(connected(server))
            assert is_answered(server)  # after all of these
            scrapes.go_on.set()
            assert b"sparkscale_driver_epoch" in all_of(reader)

    def test_of_readers_one_too_many_is_refused_and_who_controls_is_answered(
        self, server: Server, scrapes: Scrapes
    ) -> None:
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(connected(server)) for _ in range(MAX_READERS)]
            for reader in readers:
                reader.sendall(SCRAPE)
                assert scrapes.begun.acquire(timeout=HANGS)
            code, text = scraped(server)
            assert (code, json.loads(text)["error"]) == (
                503,
                f"{MAX_READERS} read metrics just now: try again later",
            )
            assert is_answered(server)
            scrapes.go_on.set()
            for reader in readers:
                assert b"sparkscale_driver_epoch" in all_of(reader)
            wait_for("one that comes later reads", lambda: scraped(server)[0] == 200)

    def test_who_has_shown_the_token_that_controls_reads_whoever_else_does(
        self, server: Server, scrapes: Scrapes
    ) -> None:
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(contextlib.closing(client_of(server)))
            assert ask(client, "GET", "/v1/status")[0] == 200
            for _ in range(MAX_READERS):
                stack.enter_context(connected(server)).sendall(SCRAPE)
                assert scrapes.begun.acquire(timeout=HANGS)
            client.request("GET", "/metrics", headers={"Authorization": f"Bearer {READ}"})
            assert scrapes.begun.acquire(timeout=HANGS)
            scrapes.go_on.set()
            assert client.getresponse().status == 200

    @pytest.mark.parametrize(
        "head",
        [
            b"GET /metrics HTTP/1.1\r\nContent-Length: 999999999999\r\n",
            b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
            b"GET /metrics HTTP/9.9\r\n",
            b"GET /metrics\r\n",
            b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n",
            b"\x00\xff\r\n",
        ],
    )
    def test_odd_requests_end_and_the_next_is_answered(self, server: Server, head: bytes) -> None:
        with contextlib.suppress(OSError), contextlib.closing(connected(server)) as connection:
            authorized = b"Authorization: Bearer " + READ.encode() + b"\r\n\r\n"
            connection.sendall(head + authorized)
            all_of(connection)  # an end, whatever it says
        assert scraped(server)[0] == 200


class TestWhatIsRead:
    def test_everything_that_an_agent_measures(self) -> None:
        stream, query = ("stream", "clicks"), ("query", "counts")

        def key(name: str, *labels: tuple[str, str]) -> Any:
            return f"sparkscale_{name}", tuple(sorted((stream, *labels)))

        assert of(FULL) == {
            key("driver_epoch"): 4,
            key("driver_start_timestamp_seconds"): 1000,
            key("executors", ("kind", "registered")): 3,
            key("executors", ("kind", "requested")): 4,
            key("executors", ("kind", "leaving")): 1,
            key("queries", ("state", "active")): 1,
            key("queries", ("state", "died")): 0,
            key("lag_seconds", query): 2.5,
            key("backlog_records", query): 7,
            key("batch_interval_seconds", query): 10,
            key("batch_in_progress_seconds", query): 1.5,
            key("query_heard_timestamp_seconds", query): 1999.5,
            key("watermark_timestamp_seconds", query): 1900,
            key("state_rows", query): 12,
            key("state_bytes", query): 4096,
            key("state_partitions", query): 8,
            key("data_lost_total", query): 0,
            key("batches_total", query, ("result", "completed")): 5,
            key("batches_total", query, ("result", "failed")): 1,
            key("batch_processing_seconds_total", query): 20.5,
            key("input_records_total", query): 500,
            key("rate_limit_records_per_second", query, ("source", "kinesis")): 250,
            key("receivers", ("state", "running")): 1,
            key("receivers", ("state", "away")): 1,
        }

    def test_before_spark_is_there_nothing_is_told_of_it(self, agent: Agent) -> None:
        names = {name for name, _ in of(agent.status())}
        assert names == {"sparkscale_driver_epoch", "sparkscale_driver_start_timestamp_seconds"}

    def test_of_spark_that_does_not_answer_no_executors_are_told(self) -> None:
        old = replace(FULL, spark=replace(FULL.spark, age=31.0))
        assert "sparkscale_executors" not in {name for name, _ in of(old)}

    def test_queries_and_sources_that_a_program_makes_up_are_bounded(self) -> None:
        queries = tuple(replace(COUNTS, name=f"q{n}") for n in range(MOST_QUERIES * 3))
        limits = tuple(Limit(f"s{n}", "q0", 1.0) for n in range(MOST_SOURCES * 3))
        found = of(replace(FULL, queries=queries, limits=limits))
        by_name = [name for name, _ in found]
        assert by_name.count("sparkscale_lag_seconds") == MOST_QUERIES
        assert by_name.count("sparkscale_rate_limit_records_per_second") == MOST_SOURCES
        number = found["sparkscale_queries", (("state", "active"), ("stream", "clicks"))]
        assert number == MOST_QUERIES * 3

    def test_the_table_has_each_name_once_and_all_that_is_told(self) -> None:
        names = [metric.name for metric in AGENT]
        assert len(set(names)) == len(names)
        told = {
            each.metric
            for each in samples(replace(FULL, queries=(replace(COUNTS, pending_batches=1),)))
        }
        assert told == set(AGENT)


NUMBERS = st.none() | st.integers(0, 10**6)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    query = Query(
        "counts",
        active=True,
        **{
            name: draw(NUMBERS)
            for name in ("interval_ms", "running_ms", "pending_batches", "backlog_records")
        },
        behind_ms=draw(NUMBERS),
        source_lost=draw(NUMBERS),
        heard_at=draw(NUMBERS),
        watermark=draw(NUMBERS),
        state=draw(
            st.none() | st.builds(QueryState, rows=NUMBERS, bytes=NUMBERS, partitions=NUMBERS)
        ),
    )
    spark = draw(st.builds(Spark, age=st.just(0.0), registered=NUMBERS, requested=NUMBERS))
    limits = draw(st.lists(st.builds(Limit, st.just("s"), st.just("counts"), NUMBERS), max_size=1))
    totals = draw(st.none() | st.just((Totals("counts", 1, 0, 1, draw(NUMBERS)),)))
    return replace(ANSWER, queries=(query,), spark=spark, limits=tuple(limits), totals=totals)


@given(answers())
def test_what_was_not_measured_has_no_series(answer: Answer) -> None:
    found = {name.removeprefix("sparkscale_"): value for (name, _), value in of(answer).items()}
    [query] = answer.queries
    state = query.state or QueryState()
    measured = {
        "lag_seconds": query.behind_ms,
        "backlog_records": query.backlog_records,
        "pending_batches": query.pending_batches,
        "batch_interval_seconds": query.interval_ms,
        "batch_in_progress_seconds": query.running_ms,
        "query_heard_timestamp_seconds": query.heard_at,
        "watermark_timestamp_seconds": query.watermark,
        "state_rows": state.rows,
        "state_bytes": state.bytes,
        "state_partitions": state.partitions,
        "data_lost_total": query.source_lost,
        "input_records_total": answer.totals[0].records if answer.totals else None,
        "rate_limit_records_per_second": answer.limits[0].rate if answer.limits else None,
    }
    for name, value in measured.items():
        assert (name in found) == (value is not None), name
    kinds = {dict(labels)["kind"] for (name, labels) in of(answer) if name.endswith("_executors")}
    spark = answer.spark
    assert ("registered" in kinds, "requested" in kinds) == (
        spark.registered is not None,
        spark.requested is not None,
    )
    assert ("leaving" in kinds) == (spark.registered is not None)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)


@given(TEXTS, TEXTS)
def test_any_name_is_read_back_as_it_was(stream: str, help: str) -> None:
    metric = Metric("sparkscale_x", "gauge", ("stream",), help)
    text = exposition([Sample(metric, {"stream": stream}, 1.0)])
    assert text.count("\n") == 3
    [family] = text_string_to_metric_families(text)
    [found] = family.samples
    assert found.labels == {"stream": stream}


def test_half_a_character_is_no_error() -> None:
    metric = Metric("sparkscale_x", "gauge", ("stream",), "X.")
    text = exposition([Sample(metric, {"stream": "a\ud800b"}, 1.0)])
    assert text.encode().splitlines()[-1] == b'sparkscale_x{stream="a?b"} 1.0'


class TestTotals:
    def test_batches_with_work_add_up(self) -> None:
        history = History(limit=2)
        for took, records in ((500, 10), (700, 20), (0, 0), (300, 0)):
            history.add(Batch("q", 1.0, took, records=records))
        history.add(Batch("q", 1.0, 900, failed=True))
        assert history.totals() == (Totals("q", 3, 1, 1500, 30),)

    def test_records_that_are_not_known_of_a_batch_are_not_known_in_all(self) -> None:
        history = History()
        for records in (10, None, 20):
            history.add(Batch("q", 1.0, 500, records=records))
        assert history.totals() == (Totals("q", 3, 0, 1500, None),)

    def test_they_are_kept_of_the_latest_queries(self) -> None:
        history = History()
        for n in range(TOTALS + 5):
            history.add(Batch(f"q{n}", 1.0, 500, records=1))
        kept = [each.query for each in history.totals()]
        assert (len(kept), kept[-1]) == (TOTALS, f"q{TOTALS + 4}")


@pytest.mark.parametrize(
    ("progress", "seconds"),
    [
        ({}, None),
        ({"eventTime": None}, None),
        ({"eventTime": {}}, None),
        ({"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}, None),
        ({"eventTime": {"watermark": "1970-01-01T00:01:00.500Z"}}, 60.5),
        ({"eventTime": {"watermark": "soon"}}, None),
        ({"eventTime": {"watermark": 7}}, None),
    ],
)
def test_a_watermark_that_no_record_has_moved_is_none(
    progress: dict[str, Any], seconds: float | None
) -> None:
    assert watermark(progress) == seconds


def test_a_query_has_its_last_watermark_until_it_ends() -> None:
    told = Told()
    told.started()
    told.batch(3, 1, eventTime={"watermark": stamp(0)})
    told.batch(6, 1, number=1, eventTime={"watermark": stamp(2)})
    assert [query.watermark for query in told.queries.listed({})] == [T0 / 1000 + 2]
    told.died(9, None)
    assert [query.watermark for query in told.queries.listed({})] == [None]
