"""Real drivers with a DStreams program whose receivers hold executors."""

import contextlib
import fcntl
import socket
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dagster_sparkscale.driver.ending.end_report import NOT_CLEAN
from dagster_sparkscale.observe.status import Status
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Cluster, Driver, stop_report
from tests.driver.shared import Shared
from tests.releases import has
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]

# Without it an executor of Spark 3.5 takes along what was received when a socket receiver on it is
# stopped: `drain.may_lose`.
_LOGGED = not has("4.0")
_SETTINGS = {"spark.streaming.receiver.writeAheadLog.enable": str(_LOGGED).lower()}
PAUSE = "1.5"
"""Seconds that a batch takes at least; the interval is one second, so batches queue up."""


class Feed:
    """A server that every receiver connects to, and that sends lines when told."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.connections: list[socket.socket] = []
        self.sent: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.connections.append(self._listening.accept()[0])

    def send(self, lines: int) -> None:
        """Send numbered lines over all connections that are open, and see them received."""
        for _ in range(lines):
            line = f"line{len(self.sent)}"
            connection = self.connections[-1 - len(self.sent) % 2]
            connection.sendall(f"{line}\n".encode())
            self.sent.append(line)
        for connection in self.connections[-2:]:
            wait_for("the lines are received", lambda c=connection: _unsent(c) == 0)

    def close(self) -> None:
        self._listening.close()
        for connection in self.connections:
            connection.close()


def _unsent(connection: socket.socket) -> int:
    answer = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    return int(struct.unpack("i", answer)[0])


@dataclass(frozen=True)
class Started:
    """A driver, what feeds its receivers, and the folder of what it writes."""

    driver: Driver
    feed: Feed
    data: Path


def start(
    cluster: Cluster, feed: Feed, data: Path, name: str, initial: int, cores: int = 1
) -> AbstractContextManager[Driver]:
    arguments = (str(feed.port), "2", str(data / "out"))
    settings = {**_SETTINGS, "spark.executor.cores": cores}
    return cluster.driver(
        data / name, PROGRAMS / "sockets.py", *arguments, initial=initial, settings=settings
    )


@pytest.fixture(scope="module")
def shared(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared[Started]]:
    @contextlib.contextmanager
    def started() -> Iterator[Started]:
        data = tmp_path_factory.mktemp("dstreams")
        (data / "out-pause").write_text(PAUSE)
        with contextlib.closing(Feed()) as feed, start(cluster, feed, data, "first", 4) as driver:
            yield Started(driver, feed, data)

    with Shared(started) as shared:
        yield shared


@pytest.fixture
def started(shared: Shared[Started]) -> Started:
    """It runs."""
    return shared.get(lambda started: started.driver.lives())


@pytest.fixture
def driver(started: Started) -> Driver:
    return started.driver


def written(data: Path) -> list[str]:
    files = (data / "out").iterdir() if (data / "out").exists() else ()
    return [line for file in files for line in file.read_text().splitlines()]


def hosts(driver: Driver) -> set[str]:
    """The executors that host receivers."""
    return {executor.id for executor in driver.status().executors if executor.receivers}


@pytest.mark.clusters
def test_a_program_that_constructs_its_own_context_gets_the_one_there_is(driver: Driver) -> None:
    driver.wait(lambda s: s.phase == "running" and s.queries, "the graph is started")
    assert "the program's SparkContext is the one that was created" in driver.log()
    assert "spark.app.name = sockets (it is spark.app.name = tested)" in driver.log()


def test_batches_and_receivers_are_reported(started: Started) -> None:
    driver, feed, data = started.driver, started.feed, started.data
    driver.wait(lambda s: sum(e.receivers for e in s.executors) == 2, "two receivers")
    wait_for("the receivers have connected", lambda: len(feed.connections) >= 2)
    feed.send(100)
    seen = driver.wait(
        lambda s: sum(batch.records or 0 for batch in s.batches) >= 100, "all are processed"
    )
    assert sorted(written(data)) == sorted(feed.sent)
    assert {batch.query for batch in seen.batches} == {"dstream"}
    [query] = seen.queries
    assert (query.name, query.active, query.interval_ms) == ("dstream", True, 1000)
    assert seen.started_at < (query.heard_at or 0) <= seen.now
    full = [batch for batch in seen.batches if batch.records]
    assert all(batch.processing_ms >= 1500 and not batch.failed for batch in full)
    assert len({batch.batch_id for batch in seen.batches}) == len(seen.batches)
    assert sum(batch.cold for batch in seen.batches) == 1 and not query.cold
    # Batches of more than a second every second: they wait, and say so.
    later = driver.wait(lambda s: (s.queries[0].pending_batches or 0) >= 3, "batches wait")
    assert later.queries[0].running_ms is not None
    assert any((batch.scheduling_ms or 0) > 0 for batch in later.batches)


def test_executors_that_host_receivers_are_never_removed(driver: Driver) -> None:
    driver.wait(
        lambda s: s.registered == 4 and sum(e.receivers for e in s.executors) == 2,
        "4 executors, two receivers",
    )
    receiving = hosts(driver)
    assert len(receiving) == 2
    answer = driver.scale(1)
    assert answer.status_code == 200
    seen = driver.wait(lambda s: s.registered == 2 and s.removing == 0, "the others leave")
    assert seen.requested == 1
    assert {executor.id for executor in seen.executors} == receiving
    blocked = driver.wait(lambda s: s.blocked, "it says why no more go").blocked
    assert blocked is not None and "2 executor(s) hold receivers" in blocked
    assert hosts(driver) == receiving
    assert driver.scaled(3).blocked is None


@pytest.mark.clusters
def test_what_was_received_is_processed_before_it_stops_and_the_next_goes_on_from_there(
    cluster: Cluster, started: Started
) -> None:
    driver, feed, data = started.driver, started.feed, started.data
    driver.wait(lambda s: s.phase == "running" and s.queries, "the graph is started")
    wait_for("the receivers have connected", lambda: len(feed.connections) >= 2, about=driver.log)
    driver.scaled(3)
    feed.send(200)
    driver.stop()
    assert driver.exit_code(240) == 0
    assert "the program has ended by itself" in driver.log()
    assert "left to Spark's own" not in driver.log()
    assert sorted(written(data)) == sorted(feed.sent)
    [graph] = stop_report(driver).queries
    assert (graph.name, graph.drained) == ("dstream", True)
    assert graph.batch_id is not None and graph.batch_id % 1000 == 0

    # The next one finds the checkpoint.
    connected = len(feed.connections)
    (data / "out-pause").write_text("0")
    with start(cluster, feed, data, "second", 1, cores=3) as again:
        wait_for("connected", lambda: len(feed.connections) >= connected + 2, about=again.log)
        feed.send(50)
        wait_for("processed", lambda: set(feed.sent) <= set(written(data)), about=again.log)
        assert "the program's SparkContext is" not in again.log()  # it was never constructed
        again.stop(graceful=False)
        assert again.exit_code() == NOT_CLEAN
        [graph] = stop_report(again).queries
        assert (graph.name, graph.drained) == ("dstream", False)


def test_the_agent_acts_and_answers_while_the_graph_waits_for_executors(
    cluster: Cluster, tmp_path: Path
) -> None:
    """`StreamingContext.start` holds a lock until there is an executor: just then the target must
    get through."""
    arguments = ("1", "1", str(tmp_path / "out"))  # no receiver is ever started
    settings = {"spark.executor.memory": "64g"}  # more than the worker has
    with cluster.driver(
        tmp_path / "driver", PROGRAMS / "sockets.py", *arguments, most=2, settings=settings
    ) as driver:

        def held_up(seen: Status) -> bool:
            ages = seen.ages or {}
            graph = ages.get("dstreams")
            return "executors" in ages and seen.phase == "running" and (graph is None or graph > 4)

        driver.wait(held_up, "the graph is being started")
        answer = driver.scale(2)
        assert answer.status_code == 200, answer.text
        seen = driver.status()
        assert (seen.registered, seen.requested) == (0, 2)
        assert seen.spark_age is not None and seen.ages is not None
        assert seen.ages["receivers"] is None or seen.ages["receivers"] > seen.spark_age
        assert held_up(seen)
