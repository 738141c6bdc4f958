"""Real drivers of the program `counting.py`, one after the other on one checkpoint."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import requests

from dagster_sparkscale.driver.settings import KEY_GROUPS, PLAN
from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.state.reporting import HOLD_AT
from dagster_sparkscale.driver.wire import Reconfiguration
from dagster_sparkscale.observe.status import Status
from tests.driver.running import EPOCH, TOKEN, Driver, Start
from tests.driver.state.counted import PROGRAM, Counting
from tests.waiting import HANGS, wait_for

GROUPS = 16
BEGIN = 4


class Drivers:
    """Starts each with a folder of its own, for the queries in `data`.

    Args:
        start: on a cluster, or without executors.
        settings: of Spark, that all of them have.
    """

    def __init__(
        self,
        start: Start,
        folder: Path,
        *names: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._start, self._folder, self._started = start, folder, 0
        self._names = names or ("counts",)
        self.data = folder / "data"
        self._settings = dict(settings or {})
        self.queries: dict[str, Counting] = {
            name: Counting(self.data, name) for name in self._names
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
        """Have new lines counted, right with all that were before, in a batch that is done."""
        names = names or self._names
        for name in names:
            self.queries[name].feed()
            wait_for(
                f"{name} to be counted",
                lambda name=name: self.queries[name].right,
                about=lambda: driver.log()[-6000:],
            )
        driver.wait(
            lambda s: {each.name for each in s.queries if not each.cold}.issuperset(names),
            "their batches to be done",
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

    def killed_in_place_at(
        self, step: str, plan: StatePlan, beside: Mapping[str, object] | None = None
    ) -> None:
        """A driver that runs, is asked for a change in place, or beside the stream, and is killed
        when it begins that step of it."""
        with self.started(hold_at=step) as driver:
            self.count(driver)
            answer = ask(driver, plan, beside=beside)
            assert answer.status_code == 200, answer.text
            driver.wait(lambda s: s.reconfiguring and s.reconfiguring.step == step, step)
            driver.kill()


BESIDE: Mapping[str, object] = {"rows": 0, "replay": True, "within": 300.0, "busiest": 1000.0}
"""Asks for a change beside the stream, however small its state and however slow this machine."""


def ask(
    driver: Driver,
    plan: StatePlan | None,
    within: object = 120.0,
    beside: Mapping[str, object] | None = None,
) -> requests.Response:
    """Have a plan carried out in place, or beside the stream; what the agent answers."""
    return requests.put(
        driver.announced()["url"] + "/v1/state",
        json={"plan": plan and asdict(plan), "within": within, "beside": beside, "epoch": EPOCH},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=60,
    )


def the_one(status: Status) -> Reconfiguration:
    (report,) = status.reconfigurations
    return report
