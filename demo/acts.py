"""What the demo does to two streams once they were scaled up and down: it has the state of one
cut into other partitions, and kills an executor of the other, whose receivers are spread anew."""

import contextlib
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import psutil

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.errors import ClusterError
from demo.report import Report

STATEFUL, RECEIVING = "clicks", "orders"
RUNS = {STATEFUL: "reconfigure_state", RECEIVING: "rebalance_receivers"}
"""The tracked run that each must lead to, by stream."""
PARTITIONS = 4
"""Of the state, which begins with those that `definitions.py` declares."""
AGAIN_AFTER = 90.0
"""Seconds after which it is done again, where no such run has changed anything."""

Launch = Callable[[str, dict[str, Any]], str]
"""Launches a run of a job with a config, and returns its id."""


class Acts:
    """
    Args:
        receivers_on: executors that the stream with receivers rests on when one of them is killed.
        processes: those of the demo.
        patience: how many times as long it waits before it does something again.
    """

    def __init__(
        self,
        cluster: ClusterManager,
        launch: Launch,
        receivers_on: int,
        processes: Callable[[], list[psutil.Process]],
        patience: float,
    ) -> None:
        self._cluster, self._launch, self._processes = cluster, launch, processes
        # State is changed on any number: what the policy has learned may ask for more than the
        # minimum at any load.
        self._rests_on = {STATEFUL: None, RECEIVING: receivers_on}
        self._pause = AGAIN_AFTER * patience
        self._not_before = dict.fromkeys(RUNS, 0.0)

    def next(self, report: Report, since: float) -> Iterator[str]:
        """Do what is due, and tell of it.

        Args:
            since: when the load began, seconds since the epoch.
        """
        acts = {STATEFUL: self._change_state, RECEIVING: self._kill_an_executor}
        for stream, act in acts.items():
            if report.missing([stream], since) or report.changed(stream, RUNS[stream], since):
                continue
            settled = report.settled(stream, self._rests_on[stream])
            if settled and time.monotonic() >= self._not_before[stream] and (line := act()):
                self._not_before[stream] = time.monotonic() + self._pause
                yield f"{stream}: {line}"

    def _change_state(self) -> str:
        config = {"stream": STATEFUL, "partitions": PARTITIONS, "reason": "the demo shows it"}
        run_id = self._launch(RUNS[STATEFUL], {"ops": {RUNS[STATEFUL]: {"config": config}}})
        return f"its state gets {PARTITIONS} partitions, without being lost: run {run_id[:8]}"

    def _kill_an_executor(self) -> str | None:
        """None: not now, as its receivers are not on two executors."""
        try:
            driver = self._cluster.find(RECEIVING)
            status = self._cluster.status(driver) if driver is not None else None
        except ClusterError:
            return None
        if driver is None or status is None:
            return None
        on = {each.executor for each in status.receivers or ()}
        if len(on) < 2 or None in on:
            return None
        executor = sorted(map(str, on))[0]
        wanted = {("--app-id", str(driver.app_id)), ("--executor-id", executor)}
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if wanted <= set(pairwise(words)):
                    process.kill()
                    return (
                        f"executor {executor} is killed, as by a machine that fails. Its receiver "
                        "starts on the one that is left; when another has come, it is moved there"
                    )
        return None
