"""What is wrong with the receivers of a stream. Pure."""

from collections.abc import Iterator

from dagster_sparkscale.capability import Situation
from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.in_force import receiver_counts
from dagster_sparkscale.observe.findings import STARTUP_GRACE, Finding, Health
from dagster_sparkscale.observe.receivers import missing
from dagster_sparkscale.observe.status import Status

GRACE = 60.0
"""Seconds that a receiver may be away before something is wrong."""

_MARK = "receivers"


def faults(situation: Situation) -> Iterator[tuple[Health, Finding]]:
    """Find receivers that run nowhere, and a program with another number of them than was set."""
    driver, status = situation.driver, situation.status
    if driver is None or status is None:
        return
    if nowhere := missing(status, GRACE, STARTUP_GRACE):
        yield Health.BATCHES_COMPLETING, Finding(False, nowhere, mark=_MARK)
    if ignored := _ignored_number(driver, status):
        yield Health.DECLARATION_APPLIED, Finding(False, ignored, urgent=False, mark=_MARK)


def _ignored_number(driver: Driver, status: Status) -> str | None:
    """Say that the program has another number of receivers than was set; None: it has not, or that
    is not known."""
    asked = receiver_counts.of_driver(driver)
    if asked is None or not status.receivers:  # they are there all at once
        return None
    running = len(status.receivers)
    if running == asked:
        return None
    return (
        f"{asked} receivers were set, and the program has {running}: it has to take their number "
        "by receiver_count"
    )
