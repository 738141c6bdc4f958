"""A real driver of the program `waiting.py`, and requests to change its state in place."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dagster_sparkscale.driver.settings import KEY_GROUPS, PLAIN_HASH
from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.reporting import HOLD_AT
from dagster_sparkscale.driver.wire import Reconfiguration
from tests.driver.running import Driver, local_driver
from tests.driver.state.counted import Counting
from tests.driver.state.drivers import BEGIN, GROUPS
from tests.waiting import wait_for

PROGRAM = Path(__file__).parents[1] / "programs" / "waiting.py"


def over(driver: Driver, id: str) -> Reconfiguration:
    """What a change came to."""

    def ended(status: Any) -> Any:
        return next((e for e in status.state_changes if e.id == id and e.outcome), None)

    driver.wait(ended, f"{id} to be over")
    return ended(driver.status())


class Waiting:
    """The program, in a driver without executors.

    Args:
        hold_at: the step at which each change waits until `release` is called; empty: none does.
    """

    def __init__(self, folder: Path, hold_at: str = "") -> None:
        self._folder, self._hold_at = folder, hold_at
        self.data = folder / "data"
        self.counts, self.others = (Counting(self.data, name) for name in ("counts", "others"))

    @contextlib.contextmanager
    def started(self, name: str = "driver") -> Iterator[Driver]:
        held = {HOLD_AT: f"{self._hold_at}={self._folder / 'go on'}"} if self._hold_at else {}
        settings = {
            KEY_GROUPS: str(GROUPS),
            PLAIN_HASH: "true",
            layout.PARTITIONS: str(BEGIN),
            layout.PROVIDER: layout.ROCKSDB,
            "spark.sql.session.timeZone": "UTC",
        }
        with local_driver(
            self._folder / name, PROGRAM, str(self.data), settings=settings, env=held
        ) as driver:
            yield driver

    def release(self) -> None:
        (self._folder / "go on").touch()

    def count(self, driver: Driver) -> None:
        """Have new lines counted by both queries, right with all that were before."""
        for each in (self.counts, self.others):
            each.feed()
        for each in (self.counts, self.others):
            wait_for(
                f"{each.place.name} to be counted",
                lambda each=each: each.right,
                about=lambda: driver.log()[-6000:],
            )

    def do(self, name: str, wait: bool = True) -> None:
        """Have the program do something; returns when it has."""
        before = len(self.noted("did"))
        draft = self.data / "draft"
        draft.write_text(name)
        draft.rename(self.data / "do")
        if wait:
            wait_for(f"{name} to be done", lambda: len(self.noted("did")) > before)

    def noted(self, *whats: str) -> list[dict[str, Any]]:
        """What the program has noted of these."""
        file = self.data / "noted"
        lines = file.read_text().splitlines() if file.exists() else []
        read = [json.loads(line) for line in lines]
        return [each for each in read if each["what"] in whats]
