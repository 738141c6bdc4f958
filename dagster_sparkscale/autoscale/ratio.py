"""The ratio policy: Spark's ExecutorAllocationManager, with its defects mended. Pure.

Where it differs from `org.apache.spark.streaming.scheduler.ExecutorAllocationManager`:

- No completed batch because one is overdue is overload, not silence; and nothing is removed while
  a batch is overdue.
- Executors that all died are asked for again, down to the minimum; Spark waits for a batch to
  complete, and without executors none does (SPARK-42972).
- A number outside the bounds, as after a change of the declaration, is brought back into them.
"""

import math

from dagster_sparkscale.autoscale.decisions import Decision, Hold, ScaleTo
from dagster_sparkscale.autoscale.evaluate import Evaluation
from dagster_sparkscale.policies import RatioPolicy
from dagster_sparkscale.streams import Bounds


def round_half_up(value: float) -> int:
    """Java's `Math.round`, which Spark uses: Python's `round` goes to the even neighbour."""
    below = math.floor(value)  # `value + 0.5` is itself rounded: 0.49999999999999994 would become 1
    return below + 1 if value - below >= 0.5 else below


def decide_by_ratio(policy: RatioPolicy, bounds: Bounds, seen: Evaluation) -> Decision:
    """The decision for one evaluation.

    An increase starts from the registered executors and not from those requested, and overrides
    what is outstanding, as in Spark: target = max(min(max, registered + max(round(R), 1)), min).
    """
    registered, requested = seen.registered, seen.requested
    if registered is None or requested is None:
        return Hold("the number of executors is not known: Spark gave the agent no fresh answer")
    if bounds.clamp(requested) != requested:
        return ScaleTo(
            bounds.clamp(requested),
            f"{requested} requested is outside the bounds {_range(bounds)}",
        )
    if registered == 0:
        return Hold(
            f"no executor is registered; {requested} requested, waiting for the cluster manager"
        )
    if seen.uptime is not None and seen.uptime < seen.window:
        # As Spark, which first evaluates one interval after the start: what is measured before is
        # mostly the start itself, and the first batch is the slowest.
        return Hold(
            f"the driver started {seen.uptime:.0f} s ago; it is judged by a whole window of "
            f"{seen.window:g} s"
        )
    if (
        seen.stalled is not None
        and seen.stalled >= policy.scale_up_ratio
        and (seen.ratio is None or seen.stalled > seen.ratio)
    ):
        whose = "" if seen.ratio is None else f" of a query beside {seen.query!r}"
        return _up(
            _within_window(seen.stalled, seen),
            f"no batch{whose} completed in {seen.window:g} s and the one in progress has taken "
            f"{seen.stalled:.2f} batch intervals so far",
            bounds,
            registered,
            requested,
        )
    if seen.ratio is None:
        return Hold(f"R is unknown: {seen.silence}")
    measured = f"R {seen.ratio:.2f}" + (f" of query {seen.query!r}" if seen.query else "")
    if seen.ratio >= policy.scale_up_ratio:
        why = f"{measured} is at or above {policy.scale_up_ratio:g}"
        return _up(seen.ratio, why, bounds, registered, requested)
    if seen.ratio <= policy.scale_down_ratio:
        why = f"{measured} is at or below {policy.scale_down_ratio:g}"
        return _down(seen, why, bounds, registered, requested)
    return Hold(
        f"{measured} is between {policy.scale_down_ratio:g} and {policy.scale_up_ratio:g}"
        + _outstanding(registered, requested)
    )


def _within_window(stalled: float, seen: Evaluation) -> float:
    """How much of `stalled` one evaluation may answer: what fits into its window. A batch that
    hangs for an hour would otherwise ask for more with every minute that it hangs."""
    if seen.batch_interval is None:
        return stalled
    return min(stalled, max(1.0, seen.window / seen.batch_interval))


def _up(ratio: float, why: str, bounds: Bounds, registered: int, requested: int) -> Decision:
    target = bounds.clamp(registered + max(round_half_up(ratio), 1))
    if target == requested:
        if registered >= target:
            note = f" ({bounds.note})" if bounds.note else ""
            return Hold(f"{why}, but {target} executors are the maximum{note}", pinned=True)
        return Hold(f"{why}; {target} are requested already, {registered} have registered")
    return ScaleTo(target, f"{why}: {registered} registered -> {target}")


def _down(seen: Evaluation, why: str, bounds: Bounds, registered: int, requested: int) -> Decision:
    if seen.overdue is not None:
        return Hold(
            f"{why}, but the batch in progress has taken {seen.overdue:.2f} batch intervals so far"
        )
    target = bounds.clamp(registered - 1)
    if registered <= bounds.minimum:
        if target < requested:
            return ScaleTo(
                target,
                f"{why}: {requested} requested, of which {registered} have registered -> {target}",
            )
        return Hold(f"{why}, but {bounds.minimum} is the minimum")
    if target == requested:
        return Hold(f"{why}; {target} are requested already, {registered} are still registered")
    return ScaleTo(target, f"{why}: {registered} registered -> {target}")


def _outstanding(registered: int, requested: int) -> str:
    return "" if registered == requested else f"; {registered} of {requested} have registered"


def _range(bounds: Bounds) -> str:
    return f"{bounds.minimum} to {bounds.maximum if bounds.maximum is not None else 'any'}"
