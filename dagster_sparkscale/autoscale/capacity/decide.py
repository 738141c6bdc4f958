"""The decision of the capacity policy: by what a stream needs, or by R until it knows. Pure."""

from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from typing import Self

from dagster_sparkscale.autoscale import rules
from dagster_sparkscale.autoscale.capacity.learner import (
    LEAST_MINUTES,
    MOST_ERROR,
    Known,
)
from dagster_sparkscale.autoscale.capacity.model import PRIOR_OVERHEAD
from dagster_sparkscale.autoscale.capacity.sizing import Size
from dagster_sparkscale.autoscale.capacity.sums import told
from dagster_sparkscale.autoscale.steps import outstanding
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.minutes import Minute


@dataclass(frozen=True, slots=True)
class Sizing:
    """A capacity policy that knows what a stream's minutes say."""

    max_lag: float | None
    known: Known

    def after(self, minute: Minute, /) -> Self:
        """What is known with one minute more."""
        return self.__class__(self.max_lag, self.known.after(minute))

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """The decision for one evaluation."""
        case = rules.Case(UP, DOWN, self.max_lag, bounds, evaluation)
        if (decision := rules.first(rules.GUARDS, case)) is not None:
            return decision
        if (why := self._unknown(evaluation)) is not None:
            return by_ratio(case, why)
        if (decision := rules.not_cured(case)) is not None:
            return decision
        sized = self._sized(bounds, evaluation)
        if (late := rules.too_late(case)) is not None:
            return late if _wants(late, evaluation) > _wants(sized, evaluation) else sized
        return sized

    def _unknown(self, seen: Evaluation) -> str | None:
        """Why the size is not known, in words; None: it is."""
        known = self.known
        queries = len(seen.loads) + len(seen.unpaced)
        if queries > 1:
            return f"the minutes of {queries} queries are not told apart"
        if seen.unpaced:
            return f"batches of query {seen.unpaced[0]!r} take as long as they are told to"
        if seen.throttled is not None:
            return f"a limit hides how much there is for query {seen.throttled!r}"
        model = known.model
        if model is None or model.minutes < LEAST_MINUTES:
            have = 0 if model is None else model.minutes
            return f"it learns from {LEAST_MINUTES} minutes first, and knows {have} by now"
        if sqrt(model.error) > MOST_ERROR:
            return f"its predictions of processing times are off by {sqrt(model.error):.0%}"
        if known.wanted is None:
            return "what came in the last minute is not known"
        return None

    def _sized(self, bounds: Bounds, seen: Evaluation) -> Hold | ScaleTo:
        size = self.known.wanted
        staying, requested = seen.staying, seen.requested
        assert size is not None and staying is not None and requested is not None
        why = self._sum(size)
        target = bounds.aim(size.executors)
        cut = _cut(size.executors, target, bounds)
        limit = max(requested, MOST_TIMES * max(self.known.tried, staying))
        if target > limit:
            target = limit
            cut = f" (at most {MOST_TIMES} times the executors that were measured)"
        if requested < target and size.keep_up <= requested and self.known.is_settling:
            return Hold(f"{why}, but what {requested} bring is not known yet{outstanding(seen)}")
        failed = self.known.failed
        if target > requested and failed is not None and failed.in_vain:
            brought = f"{failed.executors} were no faster than {failed.first}"
            return Hold(f"{why}, but {brought}: it is not executors that it lacks")
        if target > requested:
            return ScaleTo(target, f"{requested} -> {target}{cut}: {why}")
        if target == requested:
            pinned = size.executors > bounds.aim(size.executors)
            return Hold(f"{why}{cut}{outstanding(seen)}", pinned=pinned)
        return self._fewer(bounds, seen, size)

    def _fewer(self, bounds: Bounds, seen: Evaluation, size: Size) -> Hold | ScaleTo:
        """The decision where fewer are enough than there are requested."""
        staying, requested, why = seen.staying, seen.requested, self._sum(size)
        assert staying is not None and requested is not None
        if (against := self._against(seen, size)) is not None:
            return Hold(f"{why}, but {against}")
        most = max(self.known.wants, default=0)
        if bounds.aim(max(size.executors, most)) >= requested:
            return Hold(f"{why}; {most} were needed a moment ago")
        by_ratio = self._least_by_ratio(seen, bounds)
        target = bounds.aim(max(size.executors, most, by_ratio))
        above = f"R would be above {_MOST_RATIO} on fewer if they share all the work"
        if target >= requested:
            return Hold(f"{why}, but {above}")
        if (spent := self.known.spent) < (end := self.known.most_spent):
            cost = f"{spent:.1f} executor-minutes"
            return Hold(f"{why}; more than that have cost {cost} so far, and go from {end:.1f} on")
        if seen.removing and requested <= staying:
            return Hold(f"{why}; {requested} are requested already, and some are leaving")
        if target > bounds.aim(max(size.executors, most)):
            why = f"{why}, but {above}"
        elif target > bounds.aim(size.executors):
            why = f"{why}; {most} were needed a moment ago"
        else:
            why = f"{why}{_cut(size.executors, target, bounds)}"
        return ScaleTo(target, f"{requested} -> {target}: {why}")

    def _least_by_ratio(self, seen: Evaluation, bounds: Bounds) -> int:
        """The fewest executors on which R is no more than `_MOST_RATIO` if these share all that a
        batch takes beside its usual overhead: no model is trusted further at a time."""
        assert seen.staying is not None
        shared = max(0.0, (seen.ratio or 0.0) - PRIOR_OVERHEAD) / (_MOST_RATIO - PRIOR_OVERHEAD)
        pinned = min(bounds.pinned, seen.staying)
        return ceil(pinned + (seen.staying - pinned) * shared)

    def _against(self, seen: Evaluation, size: Size) -> str | None:
        """What is against fewer executors, in words; None: nothing."""
        if size.keep_up == inf:
            return "fewer would be later still"
        known = self.known
        interval = known.workload.batch_interval
        if seen.overdue is not None:
            return "the batch in progress is overdue"
        if known.now is not None and known.now.waiting > interval / 2:
            return f"it is {known.now.waiting:.0f} s behind"
        if seen.delay is not None and seen.delay > 2 * interval:
            return f"a batch was done {seen.delay:.0f} s after its oldest record came"
        if seen.warming is not None:
            return f"of query {seen.warming!r} only its first batch is known yet"
        if self.max_lag is not None and seen.lag_unknown is not None:
            return f"its lag is not known: {seen.lag_unknown}"
        if self.max_lag is not None and seen.lag is not None and seen.lag > self.max_lag:
            return f"lag {seen.lag:.1f} s is above {self.max_lag:g} s"
        return None

    def _sum(self, size: Size) -> str:
        """The sum of a size, in words."""
        known = self.known
        return told(
            size,
            fluid=known.in_fluid(size.rate),
            smallest=known.smallest,
            first=known.least(size.rate),
            price=known.price,
            waiting=known.now.waiting if known.now else 0.0,
        )


MOST_TIMES = 20
"""Times the executors that were ever measured, of which a minute may ask for no more: beyond that
a model says nothing."""
_MOST_RATIO = 1.1
"""R on fewer executors, up to which what waits until there can be more again is not late."""
UP, DOWN = 0.9, 0.3
"""The thresholds of R by which it decides until it knows, as `RatioPolicy` has them."""


def by_ratio(case: rules.Case, why: str) -> Hold | ScaleTo:
    """The decision by R, and why it is not by size."""
    decision = rules.decide(case)
    return replace(decision, reason=f"{decision.reason} (by R: {why})")


def _wants(decision: Hold | ScaleTo, seen: Evaluation) -> int:
    return decision.target if isinstance(decision, ScaleTo) else seen.requested or 0


def _cut(wanted: int, target: int, bounds: Bounds) -> str:
    """Why the target is not what is wanted, in brackets; empty: it is."""
    if target == wanted:
        return ""
    if target > wanted:
        note = bounds.why_the_minimum
        return f" (the minimum{': ' + note if note else ''})"
    if bounds.useful is not None and target == bounds.useful:
        return f" ({bounds.useful_note})"
    return f" (the maximum{': ' + bounds.note if bounds.note else ''})"
