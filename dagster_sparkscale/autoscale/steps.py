"""The number of executors for an overload, or for idle ones. Pure."""

import math

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.durations import span
from dagster_sparkscale.observe.evaluation import Evaluation

_ROUNDING = 1e-9
"""What floats may lose, as a share: R on one executor less is computed, not measured."""


def round_half_up(value: float) -> int:
    """Java's `Math.round`, which Spark uses: Python's `round` goes to the even neighbour."""
    below = math.floor(value)  # `value + 0.5` is itself rounded: 0.49999999999999994 would become 1
    return below + 1 if value - below >= 0.5 else below


def up(
    ratio: float, why: str, bounds: Bounds, seen: Evaluation, late: str | None
) -> Hold | ScaleTo:
    staying, requested = seen.staying, seen.requested
    assert staying is not None and requested is not None
    wanted = staying + max(round_half_up(ratio), 1)
    target = bounds.aim(wanted)
    in_vain = target < bounds.clamp(wanted)
    if staying >= target and requested >= target:
        if in_vain:
            return Hold(f"{why}, but {bounds.useful_note}", pinned=True)
        note = f" ({bounds.note})" if bounds.note else ""
        return Hold(f"{why}, but {target} executors are the maximum{note}", pinned=True)
    # Under a limit R says less than when they were asked for, and so does it of a lag.
    keep = late is not None or seen.throttled is not None
    if target <= requested if keep else target == requested:
        return Hold(f"{why}; {requested} are requested already, {_present(seen)}")
    no_more = f" ({bounds.useful_note})" if in_vain else ""
    return ScaleTo(target, f"{_counted(seen)} -> {target}{no_more}: {why}")


def down(why: str, bounds: Bounds, seen: Evaluation, scale_up_ratio: float) -> Hold | ScaleTo:
    staying, requested = seen.staying, seen.requested
    assert staying is not None and requested is not None
    if seen.overdue is not None:
        so_far = taken(seen.overdue_for, seen.overdue)
        return Hold(f"{why}, but the batch in progress has taken {so_far} so far")
    if seen.removing and requested <= staying:
        return Hold(f"{why}; {requested} are requested already, {_present(seen)}")
    target = bounds.aim(staying - 1)
    if staying <= bounds.minimum:
        if target < requested:
            return ScaleTo(
                target, f"{requested} requested, of which {_present(seen)} -> {target}: {why}"
            )
        note = f": {bounds.why_the_minimum}" if bounds.why_the_minimum else ""
        return Hold(f"{why}, but {bounds.minimum} is the minimum{note}")
    if target >= requested:  # more are there than were asked for: they go without our help
        return Hold(f"{why}; {requested} are requested already, {staying} are still registered")
    rises_to = _ratio_on(target, bounds, seen)
    if rises_to >= scale_up_ratio * (1 - _ROUNDING):
        if staying < requested:
            return ScaleTo(
                staying, f"{why}: {requested} requested, of which {_present(seen)} -> {staying}"
            )
        return Hold(
            f"{why}, but it would be about {rises_to:.2f} on {target}, which is at or above "
            f"{scale_up_ratio:g}: one would be removed and added in turn"
        )
    no_more = f" ({bounds.useful_note})" if target < staying - 1 else ""
    return ScaleTo(target, f"{_counted(seen)} -> {target}{no_more}: {why}")


def taken(seconds: float | None, intervals: float) -> str:
    """How long a batch has taken.

    Args:
        seconds: None: not known.
    """
    times = f"{intervals:.1f} batch intervals"
    return times if seconds is None else f"{span(seconds)} ({times})"


def _ratio_on(target: int, bounds: Bounds, seen: Evaluation) -> float:
    """R on `target` executors, about: those at work share what the driver does not do itself."""
    assert seen.staying is not None and seen.ratio is not None
    planning = next((load.planning for load in seen.loads if load.query == seen.query), None) or 0.0
    shared = max(0.0, seen.ratio - planning)
    return seen.ratio - shared + shared * bounds.slower_on(target, seen.staying)


def outstanding(seen: Evaluation) -> str:
    if seen.staying == seen.requested and not seen.removing:
        return ""
    leaving = f", {seen.removing} more leaving" if seen.removing else ""
    return f"; {seen.staying} of {seen.requested} have registered{leaving}"


def _present(seen: Evaluation) -> str:
    if not seen.removing:
        return f"{seen.registered} registered so far"
    return f"{seen.registered} registered so far, of which {seen.removing} leaving"


def _counted(seen: Evaluation) -> str:
    if not seen.removing:
        return f"{seen.registered} registered"
    return f"{seen.registered} registered, of which {seen.removing} leaving"


def between(bounds: Bounds) -> str:
    return f"{bounds.minimum} to {bounds.maximum if bounds.maximum is not None else 'any'}"
