"""Whether a driver that failed is started again, and when. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
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


def failed(driver: Driver) -> str:
    """What a driver has failed of, in words."""
    return f"driver {driver.epoch} failed ({driver.exit_reason or 'reason unknown'})"


def recover(
    policy: RecoveryPolicy | None,
    driver: Driver,
    history: Sequence[Submission],
    now: float,
    *,
    hopeless: str | None = None,
) -> Hold | Restart:
    """What to do about `driver`, which has failed.

    Pauses double from `first_delay` up to `longest_delay`. The restarts that count against the
    limit are those since the last start by hand and within the policy's time before the failure,
    and those begun since that never came to a launch. So once given up it stays given up: nothing
    that is counted grows old.

    Args:
        now: seconds since the epoch, by the clock that wrote `history`. Set back since the
            failure, it makes nobody wait for it to come round again.
        hopeless: why each new driver would fail of the same, and what to do; None: it need not.
    """
    how = failed(driver)
    if policy is None:
        return Hold(f"{how}; its declaration says not to restart it", gave_up=True)
    if driver.fenced:
        # The next one would be refused as well, or would take from another what that works on.
        return Hold(WithRemedy(how, "; ", Remedy.START_ONCE_SETTLED), gave_up=True)
    if hopeless is not None:
        return Hold(
            WithRemedy(f"{how}; {hopeless}; giving up; mend it and ", Remedy.START_AGAIN),
            gave_up=True,
        )
    ended = driver.submitted_at if driver.ended_at is None else driver.ended_at
    since_by_hand = takewhile(lambda each: each.cause in ("recovery", ATTEMPT), reversed(history))
    counted = [each for each in since_by_hand if ended - policy.within < each.at <= now]
    attempts = len(counted)
    error = last_refusal(history)
    refusal = f"; the last restart was refused: {error}" if error else ""
    if attempts >= policy.limit:
        often = f" after {attempts} restarts within {policy.within:g} s: giving up; mend it and "
        return Hold(WithRemedy(how, often, Remedy.START_AGAIN, refusal), gave_up=True)
    delay = min(policy.first_delay * 2.0**attempts, policy.longest_delay)
    # Attempts are restarts that were begun and never came to a launch.
    attempted = (each.at for each in counted if each.cause == ATTEMPT)
    last = [at for at in (ended, *attempted) if at <= now]
    due = max(last) + delay if last else now
    if now < due:
        # A moment, not a number of seconds: it is read for minutes after.
        minutes, seconds = divmod(int(due) % 86400, 60)
        wait = f"at {minutes // 60:02}:{minutes % 60:02}:{seconds:02} UTC"
        return Hold(f"{how}; restart {attempts + 1} of {policy.limit} {wait}{refusal}")
    return Restart(attempts + 1, f"{how}; restart {attempts + 1} of {policy.limit}{refusal}")
