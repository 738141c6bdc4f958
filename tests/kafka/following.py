"""A stream that reads Kafka, on a real cluster, and what is seen of it."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dagster_sparkscale import ClusterManager, RatioPolicy, RecoveryPolicy, StructuredStream
from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.observe.status import Query, Status
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.sighting import Sighting, look
from dev.kafka.connector import connector
from tests.clusters.running import newest, see_ended, status, submit
from tests.waiting import HANGS, wait_for
from tests.watch.assessing import assess

PROGRAM = Path(__file__).parent / "programs" / "following.py"
NAME = "following"


class Following:
    """Args:
    topics: what it subscribes to, or, `by` something else, the pattern of that.
    options: of the source.
    writer: options of the query's end.
    settings: of Spark.
    """

    def __init__(
        self,
        cluster: ClusterManager,
        folder: Path,
        servers: str,
        topics: str,
        *,
        name: str,
        by: str = "subscribe",
        options: Mapping[str, Any] | None = None,
        writer: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        self.cluster, self.folder = cluster, folder
        self.pace(0.0)
        arguments = ["--servers", servers, "--by", by, "--topics", topics, "--folder", str(folder)]
        for key, value in (options or {}).items():
            arguments += ["--option", key, str(value)]
        for key, value in (writer or {}).items():
            arguments += ["--writer", key, value]
        declared: dict[str, Any] = {
            "program": str(PROGRAM),
            "arguments": tuple(arguments),
            "batch_interval": "1s",
            "executor_memory": "512m",
            "driver_memory": "512m",
            "checkpoint_location": str(folder / "checkpoint"),
            "spark_conf": {"spark.jars": connector(), **(settings or {})},
            "autoscale": RatioPolicy(interval=10, max_executors=6, max_lag="5s"),
            "recovery": RecoveryPolicy(first_delay=0.1, limit=2),
        }
        self.stream = StructuredStream(name=name, **{**declared, **fields})

    def pace(self, seconds: float) -> None:
        """Have each batch take that long from now on."""
        draft = self.folder / ".pace"
        draft.write_text(str(seconds))
        draft.replace(self.folder / "pace")

    def start(self) -> Driver:
        return submit(self.cluster, self.stream)

    @property
    def driver(self) -> Driver:
        return newest(self.cluster, self.stream.name)

    def status(self) -> Status | None:
        return status(self.cluster, self.stream.name)

    def query(self) -> Query | None:
        """Its query; None while the agent does not answer, or it has not begun."""
        told = self.status()
        return next((each for each in told.queries if each.active), None) if told else None

    def wait(self, what: str, so: Callable[[Query], object], seconds: float = 180.0) -> Query:
        """Its query, once that is so of it."""
        last: Query | None = None

        def found() -> Query | None:
            nonlocal last
            last = self.query()
            return last if last is not None and so(last) else None

        query = wait_for(what, found, seconds, about=lambda: f"{last}\n{self.log()}")
        assert query is not None
        return query

    def log(self) -> str:
        return self.cluster.logs(self.driver, 60)

    def sighting(self) -> Sighting:
        return look(self.cluster, self.stream, timeout=HANGS)

    def assessed(self) -> Assessment:
        """What the sensor would make of it now."""
        return assess(self.stream, self.sighting(), now=time.time())

    def read(self) -> list[tuple[str, int, int, str]]:
        """What its batches have read: topic, partition, offset, value; in order."""
        rows = []
        for path in (self.folder / "read").glob("[0-9]*.json"):
            rows += [tuple(row) for row in json.loads(path.read_text())]
        return sorted(rows)

    def values(self) -> list[str]:
        return [value for _, _, _, value in self.read()]


@contextmanager
def running(following: Following) -> Iterator[Following]:
    """It runs within; afterwards nothing of it does."""
    try:
        following.start()
        yield following
    except BaseException as error:
        if (driver := following.cluster.find(following.stream.name)) is not None:
            error.add_note(f"{driver}\n{following.log()}")
        raise
    finally:
        see_ended(following.cluster, following.stream.name)
