"""Many real agents in one process, with a history but without a Spark.

    python -m benchmarks.agents COUNT

What is measured against them is the side that asks. They answer with what an agent of a stream
with a batch every ten seconds answers. Prints their URLs as JSON, serves until its input ends.
"""

import json
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.backpressure.rates import Rates
from dagster_sparkscale.driver.begin.options import Options
from dagster_sparkscale.driver.main import compose
from dagster_sparkscale.driver.part import Core
from dagster_sparkscale.driver.server import Server
from dagster_sparkscale.driver.wire import Answer, Batch, Executor, Query, Spark

TOKEN = "benchmark-token-of-no-value"
BATCHES = 360
"""An hour of batches of ten seconds."""


class SteadyAgent(Agent):
    """An agent whose Spark has just answered, and completes a batch every ten seconds."""

    def __init__(self, options: Options) -> None:
        core = Core(options)
        super().__init__(core, compose(core, Rates()))
        # It has run for as long: what a tick stores once, after a start, is no part of the figure.
        self._next = self.started_at = time.time() - 10 * BATCHES
        self._complete_batches()

    def _complete_batches(self) -> None:
        while self._next < time.time():
            self.history.add(Batch("q", self._next, 5_000, 0, 1_000))
            self._next += 10

    def _refresh(self) -> None:
        self._complete_batches()

    def status(
        self, since: int | None = None, window: float | None = None, batches: bool = True
    ) -> Answer:
        executors = tuple(Executor(str(i), "127.0.0.1", 2, active_tasks=1) for i in range(4))
        spark = Spark(age=0.0, registered=4, requested=4, executors=executors)
        return replace(super().status(since, window, batches), spark=spark)

    def _queries(self) -> tuple[Query, ...]:
        return (Query("q", True, interval_ms=10_000, running_ms=1_000, backlog_records=1_000),)


def agent(name: str, kind: type[SteadyAgent] = SteadyAgent) -> SteadyAgent:
    made = kind(
        Options(
            stream=name,
            epoch=1,
            interval_ms=10_000,
            initial_executors=4,
            max_executors=8,
            token=TOKEN,
            program=Path("none.py"),
        )
    )
    made.admission.phase = "running"
    made.admission.attached = True
    return made


def main(count: int) -> None:
    urls = {}
    for number in range(count):
        name = f"stream_{number}"
        server = Server("127.0.0.1", 0, agent(name), lambda graceful, timeout: None)
        urls[name] = f"http://127.0.0.1:{server.server_port}"
        # Not `start()`: a thousand servers in one process would wake it two thousand times a
        # second, which no driver does.
        threading.Thread(target=server.serve_forever, args=(3600.0,), daemon=True).start()
    print(json.dumps(urls), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
