"""Real drivers of the program `counting.py`, one after the other on one checkpoint."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from dagster_sparkscale.driver.state import hook, layout
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.state.reporting import HOLD_AT
from dagster_sparkscale.driver.wire import KEY_GROUPS, PLAN, Reconfiguration
from dagster_sparkscale.observe.status import Status
from dev.hdfs.rig import Address
from tests.driver.running import Driver, Start
from tests.driver.state.counted import CHECKPOINTS, PROGRAM, Counting, CountingOnHdfs
from tests.waiting import HANGS, wait_for

GROUPS = 16
AS_ON_HDFS = {
    # Spark's own choice; tests take a faster one for local folders (`tests/short_lives.py`).
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileContextBasedCheckpointFileManager"
    ),
    "spark.hadoop.dfs.replication": "1",
}
BEGIN = 4


class Drivers:
    """Starts each with a folder of its own, for the queries in `data`.

    Args:
        start: on a cluster, or without executors.
        hdfs: where their checkpoints are; None: in `data` too.
        settings: of Spark, that all of them have.
    """

    def __init__(
        self,
        start: Start,
        folder: Path,
        *names: str,
        hdfs: Address | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._start, self._folder, self._started = start, folder, 0
        self._names = names or ("counts",)
        self.data = folder / "data"
        self._settings = dict(settings or {})
        if hdfs:
            self._settings |= {hook.CHECKPOINTS: hdfs.url + CHECKPOINTS, **AS_ON_HDFS}
        self.queries: dict[str, Counting] = {
            name: CountingOnHdfs(self.data, name, hdfs) if hdfs else Counting(self.data, name)
            for name in self._names
        }
        self.counting = next(iter(self.queries.values()))

    @contextlib.contextmanager
    def started(
        self,
        plan: StatePlan | None = None,
        hold_at: str = "",
        settings: Mapping[str, str] | None = None,
        providers: Mapping[str, str] | None = None,
    ) -> Iterator[Driver]:
        """One that runs in the context, and is killed in its end if it still does.

        Args:
            providers: of state stores, by the names of queries that begin with another one.
        """
        self._started += 1
        given = {
            KEY_GROUPS: str(GROUPS),
            layout.PARTITIONS: str(BEGIN),
            layout.PROVIDER: layout.ROCKSDB,
            "spark.sql.session.timeZone": "UTC",
            **self._settings,
            **({PLAN: plan.to_json()} if plan else {}),
            **(settings or {}),
        }
        queries = [
            f"{name}={provider}" if (provider := (providers or {}).get(name)) else name
            for name in self._names
        ]
        with self._start(
            self._folder / str(self._started),
            PROGRAM,
            *(str(self.data), *queries),
            settings=given,
            env={HOLD_AT: hold_at} if hold_at else {},
        ) as driver:
            yield driver

    def count(self, driver: Driver, *names: str) -> Status:
        """Have new lines counted, right with all that were before."""
        for name in names or self._names:
            self.queries[name].feed()
            wait_for(
                f"{name} to be counted",
                lambda name=name: self.queries[name].right,
                about=lambda: driver.log()[-6000:],
            )
        return driver.status()

    def end(self, driver: Driver) -> None:
        driver.stop()
        driver.exit_code(HANGS)

    def killed_at(self, step: str, plan: StatePlan | None = None) -> None:
        """A driver that is killed when it begins that step."""
        with self.started(plan, hold_at=step) as driver:
            driver.wait(lambda s: s.reconfiguring and s.reconfiguring.step == step, step)
            driver.kill()


def the_one(status: Status) -> Reconfiguration:
    (report,) = status.reconfigurations
    return report
