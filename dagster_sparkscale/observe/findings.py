"""What is checked of a stream's health, and what a check comes to. Pure."""

from dataclasses import dataclass
from enum import Enum

STARTUP_GRACE = 300.0
"""Seconds a program has, from its driver's start, until what it is to start must run."""


class Health(Enum):
    RUNNING = "running"
    BATCHES_COMPLETING = "batches_completing"
    RATIO_BELOW_ONE = "ratio_below_one"
    BELOW_MAXIMUM = "below_maximum"
    LAG_WITHIN_LIMIT = "lag_within_limit"
    NO_DATA_LOST = "no_data_lost"
    DECLARATION_APPLIED = "declaration_applied"


DESCRIPTIONS = {
    Health.RUNNING: "The driver runs and its agent answers.",
    Health.BATCHES_COMPLETING: "Every query is alive and completes batches.",
    Health.RATIO_BELOW_ONE: "R is below 1: batches take less time than they have.",
    Health.BELOW_MAXIMUM: "The policy is not held back by the maximum number of executors.",
    Health.LAG_WITHIN_LIMIT: "The stream is no further behind its source than max_lag allows.",
    Health.NO_DATA_LOST: "No source has lost data before it was read.",
    Health.DECLARATION_APPLIED: "The driver was started with what is declared now.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check. `passed` None: it could not be told; the last outcome stands."""

    passed: bool | None
    text: str
    urgent: bool = True
    """An error rather than a warning."""
    mark: str = ""
    """Tells one failure from the next: with another mark it is news, although the check has failed
    before."""
