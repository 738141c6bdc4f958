"""The clock of Dagster's host jumps, ahead or behind, and back again later.

Drivers, executors and their supervisor have hosts whose clock is right. What must hold: no driver
is taken for dead, or new; a rescale is carried out while the clock is wrong, and the next one after
it, though the one before was asked for at a later time, or in the past.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from dagster_sparkscale import LocalCluster, RatioPolicy
from dagster_sparkscale.observe.status import Status
from tests.e2e.deployment import Deployment, deployed, paced_stream, told
from tests.faults.real.watched import Record, goes_on, lasts, recovers, restarts, ticked
from tests.waiting import wait_for

LASTS = 75.0
"""Seconds: more than one tick, and longer than a lease."""
CLOCKS = {
    "clock-hour-ahead": 3600.0,
    "clock-hour-behind": -3600.0,
    "clock-minute-ahead": 60.0,
    "clock-minute-behind": -60.0,
}
"""Seconds by which it jumps, by the name of the fault."""


def play(cluster: LocalCluster, folder: Path, name: str, record: Record) -> None:
    stream = paced_stream(
        name.replace("-", "_"),
        folder,
        autoscale=RatioPolicy(interval=10, min_executors=1, max_executors=3),
    )
    with deployed(cluster, stream, folder) as d:
        told(d.materialize())
        wait_for("a batch", lambda: (s := d.status()) and s.registered == 1 and s.batches)
        with ahead(CLOCKS[name]):
            _rescaled(d, 2)
            lasts(LASTS, lambda: ticked(d) and goes_on(d, _is_the_first))
        recovers(record, "batches after it", lambda: ticked(d) and goes_on(d, _is_the_first))
        _rescaled(d, 3)
        seen = restarts(d)
        assert told(d.run("stop", reason="a fault is played"))["state"] == "stopped"
        told(d.materialize())
        wait_for("a batch", lambda: (s := d.status()) and s.epoch == 2 and s.batches)
        record("seen", f"{seen}; all that was asked for was done, a stop and a start included")


@contextmanager
def ahead(seconds: float) -> Iterator[None]:
    """The clock of this process is ahead by so much."""
    right = time.time
    with patch("time.time", lambda: right() + seconds):
        yield


def _is_the_first(status: Status) -> bool:
    return status.epoch == 1


def _rescaled(d: Deployment, target: int) -> None:
    story = told(d.run("rescale", target=target))
    assert story["ending"] == "reached", story
