"""A stream `clicks` whose driver is any Python code, a process of this host."""

import json
import os
import sys
from pathlib import Path

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.host import process_fates
from dagster_sparkscale.clusters.host.folders import StreamFolder, SubmissionFolder
from dagster_sparkscale.clusters.host.process_fates import Fate
from dagster_sparkscale.clusters.host.processes import MARKER, launch, marker
from dagster_sparkscale.clusters.records.store import Record
from tests.clusters.host.begun import begun
from tests.waiting import wait_for

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


class Started:
    """A stream `clicks` with a submission; its driver is any Python code."""

    def __init__(self, state: Path) -> None:
        hosted = begun(state)
        self.folder: StreamFolder = hosted.folder
        self.record: Record = hosted.record
        self.submission: SubmissionFolder = hosted.files
        self.submission.create()
        self.mark = marker("clicks", 1, self.record.id)

    def launch(self, code: str, announced: bool = True) -> "Started":
        command = [sys.executable, "-c", code]
        launch(self.submission, command, {**os.environ, MARKER: self.mark})
        wait_for("the driver to be up", self.submission.driver.exists)
        if announced:
            self.submission.agent.write_text('{"url": "http://127.0.0.1:9"}')
        return self

    def up(self) -> "Started":
        wait_for("the driver's word", lambda: "up" in self.submission.tail(5))
        return self

    def pid(self, name: str = "pid") -> int:
        pid: int = json.loads(self.submission.driver.read_text())[name]
        return pid

    def fate(self) -> Fate:
        def asked(doubt: Fate) -> Fate:
            raise AssertionError("only a driver elsewhere is asked")

        return process_fates.fate_of(self.record, self.submission, asked)

    def fate_if_the_agent(self, answers: bool) -> Fate:
        running = Fate(DriverState.RUNNING)
        return process_fates.fate_of(
            self.record, self.submission, lambda doubt: running if answers else doubt
        )

    def ended(self) -> Fate:
        wait_for("the end", lambda: not self.fate().state.alive)
        return self.fate()

    def there(self) -> bool:
        return self.fate().state.alive
