"""A query whose events are told."""

from datetime import UTC, datetime
from typing import Any

from dagster_sparkscale.driver.batches.history import History
from dagster_sparkscale.driver.batches.queries import Completed, Queries
from dagster_sparkscale.driver.kafka.lag import KafkaLag
from dagster_sparkscale.driver.spark.jvm import Lifetime
from dagster_sparkscale.driver.wire import Batch

T0 = 1_800_000_000_000
"""A multiple of every interval used here, in milliseconds since the epoch."""
SECOND = 1000


class Told:
    """A query whose events are told, by seconds since T0."""

    def __init__(
        self, interval_ms: int = 3 * SECOND, completed: Completed = lambda done: done.batch
    ) -> None:
        self.history = History()
        self.now = 0.0
        self.queries = Queries(
            self.history, interval_ms, lambda: T0 / 1000 + self.now, completed, KafkaLag
        )

    def started(
        self,
        at: float = 0,
        run: str = "run",
        name: str | None = "q",
        lifetime: Lifetime | None = None,
    ) -> None:
        event = {"id": f"id-of-{run}", "runId": run, "name": name, "timestamp": stamp(at)}
        self.queries.started(event, lifetime)

    def batch(self, at: float, took: float, number: int = 0, rows: int = 5, **more: Any) -> None:
        progress = {
            "runId": "run",
            "timestamp": stamp(at),
            "batchId": number,
            "batchDuration": int(took * SECOND),
            "numInputRows": rows,
            "durationMs": {"triggerExecution": int(took * SECOND)},
            "sources": [],
            **more,
        }
        self.queries.progressed({"progress": progress})

    def idle(self, at: float) -> None:
        self.queries.idled({"id": "id", "runId": "run", "timestamp": stamp(at)})

    def reported(self, at: float, sources: list[dict[str, Any]]) -> None:
        """The query's last progress, as the agent finds it when no event brings it."""
        self.queries.reported("run", {"timestamp": stamp(at), "sources": sources})

    def died(self, at: float, exception: str | None) -> None:
        self.now = at
        self.queries.terminated({"id": "id", "runId": "run", "exception": exception})

    @property
    def batches(self) -> list[Batch]:
        return self.history.read()[0]

    @property
    def empty_triggers(self) -> int:
        return sum(batch.triggers for batch in self.batches if not batch.processing_ms)


def stamp(at: float) -> str:
    moment = datetime.fromtimestamp(T0 / 1000 + at, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
