"""The task slots that real-time queries need: whether there are enough, and what Spark says of one
that it refuses. Pure."""

import re
from collections.abc import Mapping

from dagster_sparkscale.driver.ending.end_report import Slots
from dagster_sparkscale.driver.settings import REALTIME_SLOTS, REALTIME_WAIT

REFUSED = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
"""Spark's name of the error (4.3): not all stages of a real-time query fit into free slots."""
_NUMBERS = re.compile(r"needs (\d{1,9}) concurrent task slots .{0,200}?only (\d{1,9}) (?:are|is) ")


class NotEnoughSlots(RuntimeError):
    """The declared task slots have not registered in time, so that no query was started."""

    def __init__(self, query: str, needed: int, registered: int, seconds: float) -> None:
        super().__init__(
            f"{query} was not started: real-time queries need {needed} task slots at once "
            f"(realtime.slots), and {registered} registered within {seconds:g} s (realtime.wait)"
        )
        self.slots = Slots(needed, registered, registered, declared=True)


class Stopped(RuntimeError):
    """The driver was asked to stop while a query waited for its task slots."""

    def __init__(self, query: str) -> None:
        super().__init__(
            f"{query} was not started: the driver was asked to stop while it waited for task slots"
        )


def declared(settings: Mapping[str, str]) -> tuple[int, float] | None:
    """The declared slots, and the seconds to wait for them; None: none are declared.

    Args:
        settings: Spark's.
    """
    text = settings.get(REALTIME_SLOTS, "")
    if not re.fullmatch("[1-9][0-9]{0,9}", text):
        return None
    try:
        return int(text), max(0.0, float(settings.get(REALTIME_WAIT, "0")))
    except ValueError:
        return int(text), 0.0


def waiting(query: str, needed: int, registered: int, until: float) -> str:
    """What a query waits for, for people.

    Args:
        until: seconds that it waits at most from now.
    """
    return (
        f"{query} waits for task slots before it starts: {registered} of {needed} have registered, "
        f"{until:.0f} s left"
    )


def lacking(error: str, registered: int | None = None) -> Slots | None:
    """The slots that Spark says a query lacks; None: it died of something else.

    Args:
        error: what Spark says of the query that has died.
        registered: slots that there are.
    """
    _, refused, said = error.partition(REFUSED)
    if not refused or (found := _NUMBERS.search(said)) is None:
        return None
    return Slots(int(found[1]), int(found[2]), registered)
