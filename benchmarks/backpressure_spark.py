"""The same measures of a DStream on real Spark, whose receiver is limited by ours and by Spark's.

A source offers three times what fits and keeps what it may not give; what records cost doubles
after a while, and falls to a third of that again. The program is `programs/limited.py`: Spark's own
backpressure with its defaults, or `work` behind the same message to the receiver (the tracker's
`sendRateUpdate`). How long records take is given, so the rate that fits is known, but for the
overhead of a batch: that is the median of what batches took beyond it.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dagster_sparkscale.clusters.java import java_home
from dev.load_simulation import Done, Run, Stream, always, steps

PROGRAM = Path(__file__).parent / "programs" / "limited.py"
INTERVAL = 2.0
COST = 1 / 2000
ARRIVALS = 6000.0
CHANGES = (110.0, 155.0)
"""Spark's PID, unlimited at first, takes some 80 s to settle."""
SECONDS = 200.0
COSTS = ((0.0, COST), (CHANGES[0], 2 * COST), (CHANGES[1], 2 * COST / 3))
LOADS = {"start": (0.0, CHANGES[0]), "changing work": (CHANGES[0], SECONDS)}
_TICK = 0.05


def changes(load: str) -> tuple[float, ...]:
    """Seconds at which something changes in a load."""
    since, until = LOADS[load]
    return tuple(at for at, _ in COSTS if since <= at < until)


def run(estimator: str) -> Run:
    """What the stream did, in seconds since it began.

    Raises:
        RuntimeError: the program failed; shows the end of what it said.
    """
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as folder, _source() as port:
        file = Path(folder) / "batches"
        arguments = [estimator, str(port), str(SECONDS), str(file), json.dumps(COSTS)]
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(Path(__file__).parent.parent),
        }
        done = subprocess.run(
            [sys.executable, str(PROGRAM), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS + 240,
        )
        if done.returncode:
            raise RuntimeError(f"{PROGRAM.name} {estimator} failed:\n{done.stderr[-3000:]}")
        batches = [json.loads(line) for line in file.read_text().splitlines()]
        return _run(batches, float(done.stdout))


def _run(batches: list[list[int]], began: float) -> Run:
    """Of [submission time, scheduling delay, processing delay, records] of each, milliseconds."""
    cost = steps(COSTS[0][1], *COSTS[1:])
    done = []
    for submitted, waited, took, records in sorted(batches):
        formed = submitted / 1000 - began
        start = formed + waited / 1000
        # The source has more than any limit: what a batch had was what it could have.
        done.append(Done(formed, start, start + took / 1000, records, float(records), ARRIVALS))
    beyond = [batch.took - cost(batch.began) * batch.records for batch in done[2:]]
    stream = Stream(
        arrivals=always(ARRIVALS),
        cost=cost,
        interval=INTERVAL,
        overhead=max(0.0, statistics.median(beyond)),
    )
    return Run(stream, tuple(done), ())


@contextmanager
def _source() -> Iterator[int]:
    """The port of a server that offers `ARRIVALS` lines a second from the first connection on, and
    keeps what is not taken."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    thread = threading.Thread(target=_serve, args=(listening, over), daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        listening.close()


def _serve(listening: socket.socket, over: threading.Event) -> None:
    try:
        connection, _ = listening.accept()
    except OSError:
        return
    with connection:
        connection.settimeout(1.0)
        began, sent, rest = time.monotonic(), 0, b""
        while not over.wait(_TICK):
            if not rest:
                count = int((time.monotonic() - began) * ARRIVALS) - sent
                rest, sent = b"line\n" * min(count, 10_000), sent + min(count, 10_000)
            try:
                rest = rest[connection.send(rest) :]
            except TimeoutError:
                continue  # the receiver may take no more yet
            except OSError:
                return
