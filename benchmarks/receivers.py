"""How long a receiver is away when it is moved, beside Spark's own relaunch of one whose executor
was killed.

On a local cluster a DStream with one receiver and three executors runs. In turn the receiver is
sent to another executor, and the executor that it runs on is killed (SIGKILL).

- `receivers_move_seconds`: from the decision, or the kill, until the agent tells that the receiver
  runs elsewhere;
- `receivers_input_lost`: how long nobody took what the source had, as the source sees it. Both
  sides have as many of these gaps, so that the ratio of gaps is that of the shares of time.

In `lines_lost` of its detail is how many lines the source got rid of each time and no batch had: it
does not send them again, and there is no write-ahead log.
"""

import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import psutil

from benchmarks.figures import Figure, paired_ratio
from dagster_sparkscale import DStream, LocalCluster
from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.errors import AgentRefused
from dagster_sparkscale.observe.status import Receiver
from dagster_sparkscale.receivers.move import MoveReceiver
from dev.runs import MARK

PROGRAM = Path(__file__).parent / "programs" / "listening.py"
REPETITIONS = 15
EXECUTORS = 3
LINES_PER_SECOND = 200
_DEADLINE = 120.0
_LOOK = 0.02
T = TypeVar("T")
_CALM = 3.0
"""Seconds for which all runs before the next one begins."""


class Source:
    """Has a line for whoever listens every few milliseconds, and notes when nobody did."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.gaps: list[float] = []
        """Seconds of each, in order."""
        self.listened_since: float | None = None
        """By `time.monotonic`; None: nobody listens."""
        self.sent = 0
        """Lines."""
        self.speaks = threading.Event()
        self.speaks.set()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        ended: float | None = None
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.listened_since = time.monotonic()
            if ended is not None:
                self.gaps.append(self.listened_since - ended)
            with connection:
                self._talk(connection)
            ended, self.listened_since = time.monotonic(), None

    def _talk(self, connection: socket.socket) -> None:
        try:
            while not select.select([connection], [], [], 1 / LINES_PER_SECOND)[0]:
                if self.speaks.is_set():
                    connection.sendall(b"line\n")
                    self.sent += 1
        except OSError:
            pass

    def close(self) -> None:
        self._server.close()


def measure() -> list[Figure]:
    moves: tuple[list[float], list[float]] = [], []
    gaps: tuple[list[float], list[float]] = [], []
    lost: tuple[list[int], list[int]] = [], []
    with _running() as (cluster, driver, source):
        # The first of each is a warm-up.
        for repetition in range(REPETITIONS + 1):
            for side, act in enumerate((_move, _kill)):
                _calm(cluster, driver, source)
                before, missing = len(source.gaps), _missing(cluster, driver, source)
                took = act(cluster, driver)
                _wait("the source to be listened to", partial(_more_gaps, source, before))
                _calm(cluster, driver, source)
                if repetition:
                    lost[side].append(_missing(cluster, driver, source) - missing)
                    moves[side].append(took)
                    # Of several attempts each one is a gap.
                    gaps[side].append(sum(source.gaps[before:]))
    detail = {
        "ours": "seconds from the decision to move a receiver until it runs where it was sent",
        "theirs": "from the kill of its executor until Spark runs it elsewhere",
    }
    unheard = {
        "ours": "seconds in which nobody took what the source had, when the receiver was moved",
        "theirs": "the same when its executor was killed",
        "lines_lost": {"ours": lost[0], "theirs": lost[1]},
        "lines_per_second": LINES_PER_SECOND,
    }
    return [
        paired_ratio("receivers_move_seconds", *moves, goal=1.0, detail=detail),
        paired_ratio("receivers_input_lost", *gaps, goal=1.0, detail=unheard),
    ]


def _more_gaps(source: Source, than: int) -> bool:
    return len(source.gaps) > than


def _move(cluster: LocalCluster, driver: Driver) -> float:
    here = _receiver(cluster, driver)
    status = cluster.status(driver, window=0)
    there = next(e.id for e in status.executors if e.id != here.executor)
    began = time.monotonic()
    cluster.change(driver, MoveReceiver(here.stream_id, there))
    _wait("the receiver", lambda: _receiver(cluster, driver).executor == there)
    return time.monotonic() - began


def _kill(cluster: LocalCluster, driver: Driver) -> float:
    here = _receiver(cluster, driver)
    process = _process(driver, here.executor or "")
    began = time.monotonic()
    process.kill()
    _wait("the receiver", lambda: _receiver(cluster, driver).executor not in (None, here.executor))
    return time.monotonic() - began


def _process(driver: Driver, executor: str) -> psutil.Process:
    """The process of an executor, by the arguments that a worker gives it."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if driver.app_id in words and words[words.index("--executor-id") + 1] == executor:
            return process
    raise RuntimeError(f"no process of executor {executor} of {driver.app_id}")


def _receiver(cluster: LocalCluster, driver: Driver) -> Receiver:
    told = cluster.status(driver, window=0).receivers
    assert told is not None
    return told[0]


def _missing(cluster: LocalCluster, driver: Driver, source: Source) -> int:
    """Lines that the source has sent and no batch has had, once all there is has been processed."""
    source.speaks.clear()
    try:
        since = time.time()

        def processed() -> int | None:
            batches = cluster.status(driver).batches
            # Three empty ones in a row that were begun after the last line.
            last = [each for each in batches if (each.batch_id or 0) / 1000 > since + 1][-3:]
            if len(last) < 3 or any(each.records for each in last):
                return None
            return 1 + sum(each.records or 0 for each in batches)

        had = _wait("all to be processed", processed)
        assert had is not None
        return source.sent - had + 1
    finally:
        source.speaks.set()


def _calm(cluster: LocalCluster, driver: Driver, source: Source) -> None:
    """All executors are there, the receiver runs, and has for a while."""

    def calm() -> bool:
        status = cluster.status(driver, window=0)
        if status.registered != EXECUTORS or not status.receivers:
            return False
        since = source.listened_since
        settled = since is not None and time.monotonic() - since >= _CALM
        return settled and status.receivers[0].executor is not None

    _wait("all to run", calm)


@contextmanager
def _running() -> Iterator[tuple[LocalCluster, Driver, Source]]:
    source = Source()
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as folder:
        cluster = LocalCluster(
            state_dir=folder,
            workers=1,
            cores_per_worker=2 * EXECUTORS,
            memory_per_worker="8g",
            pass_environment=[MARK],
        )
        try:
            stream = DStream(
                name="listening",
                program=str(PROGRAM),
                arguments=[str(source.port)],
                batch_interval="1s",
                receivers=1,
                executors=EXECUTORS,
                executor_cores=2,
                executor_memory="512m",
                driver_memory="512m",
            )
            with cluster.lease(stream.name, "benchmark") as lease:
                submitted = cluster.submit(stream, lease)

            def running() -> Driver | None:
                driver = cluster.find(submitted.stream)
                return driver if driver is not None and driver.app_id else None

            driver = _wait("the driver", running)
            assert driver is not None
            yield cluster, driver, source
        finally:
            cluster.shutdown(force=True)
            source.close()


def _wait(what: str, look: Callable[[], T]) -> T:
    """What `look` returns, once that is true of something.

    Raises:
        RuntimeError: it never was.
    """
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except AgentRefused:  # Spark is busy with it
            pass
        time.sleep(_LOOK)
    raise RuntimeError(f"{what}: not within {_DEADLINE:g} s")
