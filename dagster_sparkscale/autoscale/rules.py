"""The rules of the ratio policy, in order: the first that has a decision decides. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dagster_sparkscale.autoscale.lag import (
    NOTHING_TO_DO,
    no_more_needed,
    nothing_to_do,
    too_far_behind,
)
from dagster_sparkscale.autoscale.steps import between, down, outstanding, taken, up
from dagster_sparkscale.autoscale.throttle import (
    demand,
    fixed_behind,
    in_vain,
    ratio_of,
    stands_at,
    what_bounds,
)
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation, Load


@dataclass(frozen=True)
class Case:
    """One evaluation, and what the policy says of such."""

    scale_up_ratio: float
    scale_down_ratio: float
    max_lag: float | None
    bounds: Bounds
    seen: Evaluation

    @property
    def late(self) -> str | None:
        """Say that the stream is too far behind its source; None: it is not."""
        return too_far_behind(self.max_lag, self.seen)

    @property
    def stall(self) -> str | None:
        """Say that a query completes no batch, which is worse than the R of any other; None:
        none is like that."""
        seen = self.seen
        if seen.stalled is None or seen.stalled < self.scale_up_ratio:
            return None
        if seen.ratio is not None and seen.stalled <= seen.ratio:
            return None
        whose = "" if seen.ratio is None else f" of a query beside {seen.query!r}"
        return (
            f"no batch{whose} completed in {seen.window:g} s and the one in progress has taken "
            f"{taken(seen.stalled_for, seen.stalled)} so far"
        )

    @property
    def overloads(self) -> list[Load]:
        """The queries with an R at or above the threshold, the worst first. One whose limit makes
        that of it counts only where it is further behind than it may be."""
        seen = self.seen
        loads = seen.loads
        if not loads and seen.ratio is not None:
            loads = (Load(seen.query or "", seen.ratio),)
        return [
            each for each in loads if each.ratio >= self.scale_up_ratio and not self._may_wait(each)
        ]

    def _may_wait(self, load: Load) -> bool:
        """Whether a query stands at its limit, its batches fit, and what waits for it may wait."""
        seen = self.seen
        if load.query != seen.throttled or load.ratio >= 1 or seen.throttled_lag is None:
            return False
        return self.max_lag is not None and seen.throttled_lag <= self.max_lag

    @property
    def ratio(self) -> str:
        """R in words."""
        if self.seen.ratio is None:
            return "R is unknown"
        return _measured(Load(self.seen.query or "", self.seen.ratio))

    @property
    def low(self) -> str | None:
        """Say that R is low; None: it is not."""
        if self.seen.ratio is None or self.seen.ratio > self.scale_down_ratio:
            return None
        return f"{self.ratio} is at or below {self.scale_down_ratio:g}"

    @property
    def as_overload(self) -> float:
        """What stands in for an R that is below its threshold: that threshold; or what R would be
        without its limit, where that is known."""
        if self.seen.throttled is None or self.seen.ratio is None:
            return self.scale_up_ratio
        return max(self.scale_up_ratio, demand(ratio_of(self.seen), self.seen))


Rule = Callable[[Case], Hold | ScaleTo | None]


def decide(case: Case) -> Hold | ScaleTo:
    """The decision of the first rule that has one."""
    return first(RULES, case) or _in_between(case)


def first(rules: Iterable[Rule], case: Case) -> Hold | ScaleTo | None:
    """The decision of the first of `rules` that has one; None: none has."""
    for rule in rules:
        if (decision := rule(case)) is not None:
            return decision
    return None


def not_cured(case: Case) -> Hold | None:
    """Hold where more executors would not cure what there is, whatever the policy: no executor has
    a task, or it is the driver's planning alone that takes too long; None: they may."""
    if (why := _stalled_in_vain(case)) is not None:
        return why if nothing_to_do(case.seen) else None
    if all(_is_planned(each, case.scale_up_ratio) for each in case.overloads):
        return _overloaded_by_planning(case)
    return None


def _executors_unknown(case: Case) -> Hold | None:
    """The number of executors was not measured: hold, and say so."""
    if case.seen.staying is None or case.seen.requested is None:
        return Hold("the number of executors is not known: Spark gave the agent no fresh answer")
    return None


def _outside_bounds(case: Case) -> ScaleTo | None:
    """The requested number is outside the bounds, as after a change of the declaration: bring it
    back into them."""
    requested = case.seen.requested or 0
    if (within := case.bounds.clamp(requested)) == requested:
        return None
    why = f"{requested} requested is outside the bounds {between(case.bounds)}"
    side = case.bounds.why_the_minimum if within > requested else case.bounds.note
    return ScaleTo(within, f"{why}: {side}" if side else why)


def _no_executor(case: Case) -> Hold | None:
    """No executor stays: hold while at least the minimum is requested."""
    if case.seen.staying:
        return None
    which = "no executor is registered"
    if case.seen.removing:
        which = f"every executor that is registered is leaving ({case.seen.removing})"
    return Hold(f"{which}; {case.seen.requested} requested, waiting for the cluster manager")


def _too_young(case: Case) -> Hold | None:
    """The driver has not run for a whole window: hold. As Spark, which first evaluates one interval
    after the start: what is measured before is mostly the start itself."""
    uptime, window = case.seen.uptime, case.seen.window
    if uptime is None or uptime >= window:
        return None
    return Hold(
        f"the driver started {uptime:.0f} s ago; it is judged by a whole window of {window:g} s"
    )


def _stalled(case: Case) -> Hold | ScaleTo | None:
    """A query completed no batch, and the one in progress is overdue: overload, by its age."""
    if (why := case.stall) is None or nothing_to_do(case.seen):
        return None
    assert case.seen.stalled is not None
    age = _within_window(case.seen.stalled, case.seen)
    return up(age, why, case.bounds, case.seen, case.late)


def _overloaded(case: Case) -> Hold | ScaleTo | None:
    """R is at or above `scale_up_ratio`, not by what the driver spends on planning alone: up."""
    helped = [each for each in case.overloads if not _is_planned(each, case.scale_up_ratio)]
    if not helped:
        return None
    worst, seen = helped[0], case.seen
    ratio, why = worst.ratio, f"{_measured(worst)} is at or above {case.scale_up_ratio:g}"
    if worst.query == seen.throttled:
        ratio, why = demand(ratio, seen), f"{why}, and its input stands at its limit"
    return up(ratio, why, case.bounds, seen, case.late)


def _stalled_in_vain(case: Case) -> Hold | None:
    """A batch is overdue, but no executor has a task: hold, as no executor would help."""
    return Hold(f"{why}, but {NOTHING_TO_DO}") if (why := case.stall) is not None else None


def _overloaded_by_planning(case: Case) -> Hold | None:
    """R is at or above `scale_up_ratio` by what the driver spends on planning alone: hold."""
    if not case.overloads:
        return None
    worst = case.overloads[0]
    why = f"{_measured(worst)} is at or above {case.scale_up_ratio:g}"
    planning = (
        f"{worst.planning:.2f} of that R is the driver's time for finding offsets, planning and "
        "the query's logs, and more executors would not take that over"
    )
    seen = case.seen
    if seen.staying is not None and seen.requested is not None:
        # The maximum is named first: a person can raise that at once.
        most = up(worst.ratio, why, case.bounds, seen, case.late)
        if isinstance(most, Hold) and most.pinned:
            return replace(most, reason=f"{most.reason}; besides, {planning}")
    return Hold(f"{why}, but {planning}")


def _ratio_unknown(case: Case) -> Hold | None:
    """R was not measured: hold, unless the stream is too far behind and can be judged by that."""
    seen, late = case.seen, case.late
    unpaced = seen.lag_query is not None and seen.lag_query in seen.unpaced
    by_lag = late is not None and (seen.stalled is not None or unpaced)
    if seen.ratio is not None or by_lag:
        return None
    return Hold(f"R is unknown: {seen.silence}" + (f"; {late}" if late else ""))


def too_late(case: Case) -> Hold | ScaleTo | None:
    """The lag is above `max_lag`: as if R were at `scale_up_ratio`, unless the stream is catching
    up, or reads no more with more executors."""
    seen, late = case.seen, case.late
    if late is None or case.max_lag is None:
        return None
    if bound := fixed_behind(seen):
        return Hold(f"{late}, but {bound}" + outstanding(seen))
    throttled_behind = seen.throttled is not None and seen.throttled == seen.lag_query
    bounded = {"bounded": what_bounds(seen)} if throttled_behind else {}
    if why_not := no_more_needed(case.max_lag, case.scale_down_ratio, seen, **bounded):
        return Hold(f"{late}, but {why_not}")
    return up(case.as_overload, f"{late}, {case.ratio}", case.bounds, seen, late)


def _at_limit(case: Case) -> Hold | ScaleTo | None:
    """A query takes all that its limit lets it, and is not too far behind: as if R were at
    `scale_up_ratio`, unless the lag is known, or more executors would not let it take more."""
    seen = case.seen
    if seen.throttled is None:
        return None
    why = stands_at(seen)
    if case.max_lag is not None and seen.throttled_lag is not None:
        behind = f"{seen.throttled_lag:.1f} s behind, and may be {case.max_lag:g} s"
        return Hold(f"{why}, but it is {behind}" + outstanding(seen))
    if why_not := in_vain(case.scale_down_ratio, seen):
        return Hold(f"{why}, but {why_not}" + outstanding(seen))
    return up(case.as_overload, why, case.bounds, seen, late=None)


def _unpaced(case: Case) -> Hold | None:
    """R is low and says nothing of one of the queries: hold."""
    if not case.seen.unpaced or (low := case.low) is None:
        return None
    return Hold(
        f"{low}, but R says nothing of query {case.seen.unpaced[0]!r}, whose batches take as long "
        "as they are told to"
    )


def _warming(case: Case) -> Hold | None:
    """R is low, and of a query only the first batch since the start is known: hold."""
    if case.seen.warming is None or (low := case.low) is None:
        return None
    return Hold(f"{low}, but of query {case.seen.warming!r} only its first batch is known yet")


def _lag_unknown(case: Case) -> Hold | None:
    """R is low, and the lag of a source that could tell is not known: hold. It may be far above
    `max_lag`: a lag that is missing is none of zero."""
    if case.max_lag is None or case.seen.lag_unknown is None or (low := case.low) is None:
        return None
    return Hold(f"{low}, but its lag is not known: {case.seen.lag_unknown}")


def _low(case: Case) -> Hold | ScaleTo | None:
    """R is at or below `scale_down_ratio`: one executor less, where nothing is against it."""
    if (low := case.low) is None:
        return None
    return down(low, case.bounds, case.seen, case.scale_up_ratio)


def _in_between(case: Case) -> Hold:
    """R is between the two: hold."""
    thresholds = f"{case.scale_down_ratio:g} and {case.scale_up_ratio:g}"
    return Hold(f"{case.ratio} is between {thresholds}" + outstanding(case.seen))


GUARDS: tuple[Rule, ...] = (_executors_unknown, _outside_bounds, _no_executor, _too_young)
"""What holds whatever the load is."""
RULES: tuple[Rule, ...] = (
    *GUARDS,
    _stalled,
    _overloaded,
    _stalled_in_vain,
    _overloaded_by_planning,
    _ratio_unknown,
    too_late,
    _at_limit,
    _unpaced,
    _warming,
    _lag_unknown,
    _low,
)


def _is_planned(load: Load, scale_up_ratio: float) -> bool:
    """Whether a query would be overloaded if its executors took no time at all."""
    return load.planning is not None and load.planning >= scale_up_ratio


def _measured(load: Load) -> str:
    return f"R {load.ratio:.2f}" + (f" of query {load.query!r}" if load.query else "")


def _within_window(stalled: float, seen: Evaluation) -> float:
    """How much of `stalled` one evaluation may answer: what fits into its window. A batch that
    hangs for an hour would otherwise ask for more with every minute that it hangs. Below 1 where
    an interval is longer than the window; one executor is asked for even so."""
    if seen.batch_interval is None:
        return stalled
    return min(stalled, seen.window / seen.batch_interval)
