"""Whether a driver that failed is started again, and when. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.records.starts import ATTEMPT, last_refusal
from dagster_sparkscale.clusters.records.store import Submission
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.remedy import Remedy, WithRemedy


@dataclass(frozen=True, slots=True)
class Restart:
    """Start a new driver in the place of one that failed."""

    operation: ClassVar[str | None] = "restart"

    attempt: int
    """The number of this restart among those that the policy allows."""
    reason: str

    def __str__(self) -> str:
        return "restart"


def recover(
    policy: RecoveryPolicy | None, driver: Driver, history: Sequence[Submission], now: float
) -> Hold | Restart:
    """What to do about `driver`, which has failed.

    Pauses double from `first_delay` up to `longest_delay`. The restarts that count against the
    limit are those since the last start by hand and within the policy's time before the failure,
    and those begun since that never came to a launch. So once given up it stays given up: nothing
    that is counted grows old.

    Args:
        now: seconds since the epoch, by the clock that wrote `history`. Set back since the
            failure, it makes nobody wait for it to come round again.
    """
    failed = f"driver {driver.epoch} failed ({driver.exit_reason or 'reason unknown'})"
    if policy is None:
        return Hold(f"{failed}; its declaration says not to restart it", gave_up=True)
    if driver.fenced:
        # The next one would be refused as well, or would take from another what that works on.
        return Hold(WithRemedy(failed, "; ", Remedy.START_ONCE_SETTLED), gave_up=True)
    ended = driver.submitted_at if driver.ended_at is None else driver.ended_at
    counted = [
        submission
        for submission in _since_the_last_by_hand(history)
        if ended - policy.within < submission.at <= now
    ]
    attempts = len(counted)
    error = last_refusal(history)
    refusal = f"; the last restart was refused: {error}" if error else ""
    if attempts >= policy.limit:
        often = f" after {attempts} restarts within {policy.within:g} s: giving up; mend it and "
        return Hold(WithRemedy(failed, often, Remedy.START_AGAIN, refusal), gave_up=True)
    delay = min(policy.first_delay * 2.0**attempts, policy.longest_delay)
    last = [at for at in (ended, *_attempts_at(counted)) if at <= now]
    due = max(last) + delay if last else now
    if now < due:
        # A moment, not a number of seconds: it is read for minutes after.
        wait = f"at {_time_of_day(due)} UTC"
        return Hold(f"{failed}; restart {attempts + 1} of {policy.limit} {wait}{refusal}")
    return Restart(attempts + 1, f"{failed}; restart {attempts + 1} of {policy.limit}{refusal}")


def _since_the_last_by_hand(history: Sequence[Submission]) -> Iterator[Submission]:
    for submission in reversed(history):
        if submission.cause not in ("recovery", ATTEMPT):
            return
        yield submission


def _attempts_at(counted: Sequence[Submission]) -> Iterator[float]:
    """When restarts were begun that never came to a launch."""
    return (submission.at for submission in counted if submission.cause == ATTEMPT)


def _time_of_day(at: float) -> str:
    minutes, seconds = divmod(int(at) % 86400, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
