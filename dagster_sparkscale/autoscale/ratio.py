"""The ratio policy: Spark's ExecutorAllocationManager, with its defects mended. Pure.

Where it differs from `org.apache.spark.streaming.scheduler.ExecutorAllocationManager`:

- No completed batch because one is overdue is overload, not silence; and nothing is removed while
  a batch is overdue.
- Executors that all died are asked for again, down to the minimum; Spark waits for a batch to
  complete, and without executors none does (SPARK-42972).
- A number outside the bounds, as after a change of the declaration, is brought back into them.
- The first batch of a query in a new driver, which loads and compiles code, is no overload: the
  evaluation leaves it out, unless it goes on for longer than that may take.
- What executors can't cure is not answered by more of them: time that the driver spends on
  planning, and a batch that is overdue while no executor has a task.
- Executors that are leaving are no capacity: only those that stay are counted. Until they have
  left nobody else is told to, and low load never asks for more than is requested already.
- A source may tell how far behind the stream is, and how many shards it reads: a stream that is too
  far behind is not scaled down, and no stream is scaled beyond what its shards keep busy.
- No executor is removed where R would then be at or above the upper threshold, as with 0.9 and 0.5
  from two to one: it would be added again, and removed, for ever.
- A query that takes all that a limit lets it is not scaled down, and counts as overloaded unless
  its lag is known and short, or the limit is one that no executor moves.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import Field

from dagster_sparkscale.autoscale.lag import (
    NOTHING_TO_DO,
    no_more_needed,
    nothing_to_do,
    too_far_behind,
)
from dagster_sparkscale.autoscale.spark_conf import policy_fields
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
from dagster_sparkscale.declare.declaration import Number
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.observe.evaluation import Evaluation, Load


class RatioPolicy(AutoscalePolicy):
    """Scale by R, the mean batch processing time divided by the batch interval.

    R at or above `scale_up_ratio`: add round(R) executors, at least one. R at or below
    `scale_down_ratio`: remove one, unless R would then be at or above `scale_up_ratio`. In between:
    hold. The defaults are those Spark's
    `org.apache.spark.streaming.scheduler.ExecutorAllocationManager` ships.

    Where the source tells how far behind the stream is, and that is above `max_lag`, nothing is
    removed whatever R is, and the stream counts as overloaded unless it is catching up. So it is
    with a query whose input stands at a limit that more executors would raise.
    """

    scale_up_ratio: Annotated[Number, Field(gt=0)] = 0.9
    scale_down_ratio: Annotated[Number, Field(gt=0)] = 0.3

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        if self.scale_up_ratio <= self.scale_down_ratio:
            yield (
                f"scale_up_ratio = {self.scale_up_ratio}: must be above "
                f"scale_down_ratio = {self.scale_down_ratio}"
            )

    @classmethod
    def spark_12133(cls, **fields: Any) -> Self:
        """The thresholds of the SPARK-12133 design document: up from R 0.9 on, down from 0.5 on.

        Args:
            fields: all other fields of the policy, such as `interval` and `max_executors`.
        """
        return cls(scale_up_ratio=0.9, scale_down_ratio=0.5, **fields)

    @classmethod
    def from_spark_conf(cls, conf: Mapping[str, str]) -> Self:
        """The policy an existing job has in its `spark.streaming.dynamicAllocation.*` settings.

        Takes `spark.dynamicAllocation.initialExecutors` over as well. Settings of other families
        are left alone, so the whole configuration of a job can be passed in. The stream declared
        with this policy must not enable Spark's own allocation any more.

        Raises:
            DeclarationError: a setting of the family is unknown or has no usable value, or the job
                has its allocation switched off.
        """
        return cls(**policy_fields(conf))

    def decide(self, bounds: Bounds, seen: Evaluation) -> Hold | ScaleTo:
        """The decision for one evaluation.

        An increase starts from the executors that are registered and stay, and not from those
        requested, and overrides what is outstanding, as in Spark:
        target = max(min(max, staying + max(round(R), 1)), min).
        """
        staying, requested = seen.staying, seen.requested
        if staying is None or requested is None:
            return Hold(
                "the number of executors is not known: Spark gave the agent no fresh answer"
            )
        if bounds.clamp(requested) != requested:
            return ScaleTo(
                bounds.clamp(requested),
                f"{requested} requested is outside the bounds {between(bounds)}",
            )
        if staying == 0:
            which = "no executor is registered"
            if seen.removing:
                which = f"every executor that is registered is leaving ({seen.removing})"
            return Hold(f"{which}; {requested} requested, waiting for the cluster manager")
        if seen.uptime is not None and seen.uptime < seen.window:
            # As Spark, which first evaluates one interval after the start: what is measured before
            # is mostly the start itself, and the first batch is the slowest.
            return Hold(
                f"the driver started {seen.uptime:.0f} s ago; it is judged by a whole window of "
                f"{seen.window:g} s"
            )
        late = too_far_behind(self.max_lag, seen)
        stuck: Hold | None = None
        if (
            seen.stalled is not None
            and seen.stalled >= self.scale_up_ratio
            and (seen.ratio is None or seen.stalled > seen.ratio)
        ):
            whose = "" if seen.ratio is None else f" of a query beside {seen.query!r}"
            why = (
                f"no batch{whose} completed in {seen.window:g} s and the one in progress has taken "
                f"{taken(seen.stalled_for, seen.stalled)} so far"
            )
            if not nothing_to_do(seen):
                return up(_within_window(seen.stalled, seen), why, bounds, seen, late)
            stuck = Hold(f"{why}, but {NOTHING_TO_DO}")
        overloads = self._overloads(seen)
        helped = [load for load in overloads if not self._is_planned(load)]
        if helped:
            why = f"{_measured(helped[0])} is at or above {self.scale_up_ratio:g}"
            ratio = helped[0].ratio
            if helped[0].query == seen.throttled:
                ratio, why = demand(ratio, seen), f"{why}, and its input stands at its limit"
            return up(ratio, why, bounds, seen, late)
        if stuck is not None:
            return stuck
        if overloads:
            planned = overloads[0].planning
            return Hold(
                f"{_measured(overloads[0])} is at or above {self.scale_up_ratio:g}, but the driver "
                f"spends {planned:.2f} of it on finding offsets, planning and the query's logs, "
                "and more executors would not take that over"
            )
        by_lag = late is not None and (seen.stalled is not None or _is_unpaced(seen))
        if seen.ratio is None and not by_lag:
            return Hold(f"R is unknown: {seen.silence}" + (f"; {late}" if late else ""))
        measured = "R is unknown"
        if seen.ratio is not None:
            measured = _measured(Load(seen.query or "", seen.ratio))
        if late is not None and self.max_lag is not None:
            if bound := fixed_behind(seen):
                return Hold(f"{late}, but {bound}" + outstanding(seen))
            bounded = {"bounded": what_bounds(seen)} if _is_throttled_behind(seen) else {}
            if why_not := no_more_needed(self.max_lag, self.scale_down_ratio, seen, **bounded):
                return Hold(f"{late}, but {why_not}")
            return up(self._as_overload(seen), f"{late}, {measured}", bounds, seen, late)
        assert seen.ratio is not None
        if seen.throttled is not None:
            return self._beside_limit(bounds, seen)
        if seen.ratio <= self.scale_down_ratio and seen.unpaced:
            return Hold(
                f"{measured} is at or below {self.scale_down_ratio:g}, but R says nothing of query "
                f"{seen.unpaced[0]!r}, whose batches take as long as they are told to"
            )
        if seen.ratio <= self.scale_down_ratio and seen.warming is not None:
            return Hold(
                f"{measured} is at or below {self.scale_down_ratio:g}, but of query "
                f"{seen.warming!r} only its first batch is known yet"
            )
        if seen.ratio <= self.scale_down_ratio:
            why = f"{measured} is at or below {self.scale_down_ratio:g}"
            if self.max_lag is not None and seen.lag_unknown is not None:
                # It may be far above max_lag: a lag that is missing is none of zero.
                return Hold(f"{why}, but its lag is not known: {seen.lag_unknown}")
            return down(why, bounds, seen, self.scale_up_ratio)
        return Hold(
            f"{measured} is between {self.scale_down_ratio:g} and {self.scale_up_ratio:g}"
            + outstanding(seen)
        )

    def _beside_limit(self, bounds: Bounds, seen: Evaluation) -> Hold | ScaleTo:
        """The decision on a query that takes all that it may, and is not too far behind."""
        why = stands_at(seen)
        if self.max_lag is not None and seen.throttled_lag is not None:
            return Hold(
                f"{why}, but it is {seen.throttled_lag:.1f} s behind, and may be {self.max_lag:g} s"
                + outstanding(seen)
            )
        if why_not := in_vain(self.scale_down_ratio, seen):
            return Hold(f"{why}, but {why_not}" + outstanding(seen))
        return up(self._as_overload(seen), why, bounds, seen, late=None)

    def _as_overload(self, seen: Evaluation) -> float:
        """What stands in for an R that is below its threshold: that threshold; or what R would be
        without its limit, where that is known."""
        if seen.throttled is None or seen.ratio is None:
            return self.scale_up_ratio
        return max(self.scale_up_ratio, demand(ratio_of(seen), seen))

    def _overloads(self, seen: Evaluation) -> list[Load]:
        """The queries with an R at or above the threshold, the worst first. One whose limit makes
        that of it counts only where it is further behind than it may be."""
        loads = seen.loads
        if not loads and seen.ratio is not None:
            loads = (Load(seen.query or "", seen.ratio),)
        return [
            load
            for load in loads
            if load.ratio >= self.scale_up_ratio and not self._may_wait(load, seen)
        ]

    def _may_wait(self, load: Load, seen: Evaluation) -> bool:
        """Whether a query stands at its limit, its batches fit, and what waits for it may wait."""
        if load.query != seen.throttled or load.ratio >= 1 or seen.throttled_lag is None:
            return False
        return self.max_lag is not None and seen.throttled_lag <= self.max_lag

    def _is_planned(self, load: Load) -> bool:
        """Whether a query would be overloaded if its executors took no time at all."""
        return load.planning is not None and load.planning >= self.scale_up_ratio


def _measured(load: Load) -> str:
    return f"R {load.ratio:.2f}" + (f" of query {load.query!r}" if load.query else "")


def _is_throttled_behind(seen: Evaluation) -> bool:
    """Whether the query that is furthest behind is the one that stands at its limit."""
    return seen.throttled is not None and seen.throttled == seen.lag_query


def _is_unpaced(seen: Evaluation) -> bool:
    """Whether the query that is furthest behind can be judged by that alone."""
    return seen.lag_query is not None and seen.lag_query in seen.unpaced


def _within_window(stalled: float, seen: Evaluation) -> float:
    """How much of `stalled` one evaluation may answer: what fits into its window. A batch that
    hangs for an hour would otherwise ask for more with every minute that it hangs. Below 1 where
    an interval is longer than the window; one executor is asked for even so."""
    if seen.batch_interval is None:
        return stalled
    return min(stalled, seen.window / seen.batch_interval)
