"""Whether a driver that failed is started again, and when. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.store import Submission
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.policies import RecoveryPolicy


@dataclass(frozen=True, slots=True)
class Restart:
    """Start a new driver in the place of one that failed."""

    operation: ClassVar[str | None] = "restart"

    attempt: int
    """Which of the restarts that its policy allows."""
    reason: str

    def __str__(self) -> str:
        return "restart"


def recover(
    policy: RecoveryPolicy | None, driver: Driver, history: Sequence[Submission], now: float
) -> Hold | Restart:
    """What to do about `driver`, which has failed.

    Pauses double from `first_delay` up to `longest_delay`. The restarts that count against the
    limit are those since the last start by hand, and within the policy's time.

    Args:
        now: seconds since the epoch, by the clock that wrote `history`.
    """
    failed = f"driver {driver.epoch} failed ({driver.exit_reason or 'reason unknown'})"
    if policy is None:
        return Hold(f"{failed}; its declaration says not to restart it")
    attempts = _recent_recoveries(policy, history, now)
    if attempts >= policy.limit:
        return Hold(
            f"{failed} after {attempts} restarts within {policy.within:g} s: giving up; "
            "mend it and materialize the stream to start it again"
        )
    delay = min(policy.first_delay * 2.0**attempts, policy.longest_delay)
    due = (driver.submitted_at if driver.ended_at is None else driver.ended_at) + delay
    if now < due:
        return Hold(f"{failed}; restart {attempts + 1} of {policy.limit} in {due - now:.0f} s")
    return Restart(attempts + 1, f"{failed}; restart {attempts + 1} of {policy.limit}")


def _recent_recoveries(policy: RecoveryPolicy, history: Sequence[Submission], now: float) -> int:
    count = 0
    for submission in reversed(history):
        if submission.cause != "recovery" or submission.at <= now - policy.within:
            break
        count += 1
    return count
