"""The window before executors are removed: the largest size that was needed in it counts. Pure.

As in `scale-down.interval` of Flink and `stabilizationWindowSeconds` of Kubernetes, a load that
falls for a moment removes nothing. Each decision of the policy is an ask for a size: a hold for the
present one, and so is all that is asked while the stream is behind, or while that is not known. The
first ask after a pause, as when Dagster was down, is one for the present size too: of minutes that
nobody evaluated it is not known that fewer would have done. Another driver begins anew, as its
executors may be of another size.
"""

from dataclasses import dataclass
from typing import Self, TypeGuard

from pydantic import FiniteFloat

from dagster_sparkscale.autoscale.lag import too_far_behind
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.durations import in_units
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.remedy import WithRemedy

LONGEST_PAUSE = 4.0
"""Intervals of the policy between two asks at most: an evaluation looks back over three."""


@dataclass(frozen=True)
class Asked:
    """The sizes that were asked for within the window, as far as they matter yet."""

    epoch: int = 0
    """The driver that they are about."""
    last: FiniteFloat = 0.0
    """When something was asked for last, seconds since the epoch."""
    sizes: tuple[tuple[FiniteFloat, int], ...] = ()
    """When, and how many executors: each more than all after it, as no other can be the largest."""

    def also(self, size: int, now: float, window: float) -> Self:
        """These and `size`, without what is out of the window.

        Args:
            now: seconds since the epoch.
            window: seconds.
        """
        left = [each for each in self.sizes if now - each[0] < window and each[1] > size]
        return type(self)(self.epoch, now, (*left, (now, size)))


NOTHING_ASKED = Asked()


def scale_down(
    decision: Hold | ScaleTo,
    policy: AutoscalePolicy,
    bounds: Bounds,
    evaluation: Evaluation,
    asked: Asked | None,
    epoch: int,
    now: float,
) -> tuple[Hold | ScaleTo, Asked | None]:
    """What becomes of the policy's decision, and what has been asked for from now on.

    Args:
        asked: what was asked for until now; None: that is not known here.
        epoch: the driver's.
        now: seconds since the epoch.
    """
    window, present = policy.scale_down_window, evaluation.requested
    if window is None:
        return decision, asked
    if asked is None:
        if present is None or not _removes(decision, present):
            return decision, None
        return _not_known(decision, bounds, present, window), None
    behind = _behind(policy.max_lag, evaluation)
    wanted = decision.target if isinstance(decision, ScaleTo) else present
    if behind is not None and present is not None and wanted is not None:
        wanted = max(wanted, present)
    if asked.epoch != epoch or not 0 <= now - asked.last <= LONGEST_PAUSE * policy.interval:
        asked = Asked(epoch, now)
        if present is not None:
            asked = asked.also(present, now, window)
    if wanted is not None:
        asked = asked.also(wanted, now, window)
    if not _removes(decision, present) or not asked.sizes:
        return decision, asked
    since, largest = asked.sizes[0]
    size = bounds.aim(largest)
    if size <= decision.target:
        return decision, asked
    if behind is not None and size == present:
        why = f"nothing is removed while it is behind: {behind}"
    else:
        why = (
            f"{largest} were needed at {clock(since, now)} UTC; goes down at "
            f"{clock(since + window, now)} UTC at the earliest"
        )
    reason = WithRemedy(f"would go to {decision.target}, and {why}: ", decision.reason)
    held = present is None or size >= present
    return (Hold(reason) if held else ScaleTo(size, reason)), asked


def _removes(decision: Hold | ScaleTo, present: int | None) -> TypeGuard[ScaleTo]:
    """Whether a decision may remove executors that are needed: more are none of it, whatever was
    asked for before and never came to be; nor are those that were found not to help."""
    if not isinstance(decision, ScaleTo) or decision.not_again_for:
        return False
    return present is None or decision.target < present


def _not_known(decision: ScaleTo, bounds: Bounds, present: int, window: float) -> Hold | ScaleTo:
    """The decision where it is not known what was asked for before."""
    if bounds.aim(present) <= decision.target:
        return decision
    once = f"once no more has been needed for {in_units(window)}"
    return Hold(WithRemedy(f"would go to {decision.target} {once}: ", decision.reason))


def _behind(max_lag: float | None, evaluation: Evaluation) -> str | None:
    """Why the present size is needed whatever is asked for; None: the stream keeps up."""
    if evaluation.overdue is not None:
        return "its batch in progress is overdue"
    if max_lag is None:
        return None
    return too_far_behind(max_lag, evaluation) or evaluation.lag_unknown
