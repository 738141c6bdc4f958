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

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field

from dagster_sparkscale.autoscale import rules
from dagster_sparkscale.autoscale.spark_conf import policy_fields
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.declaration import Number
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.observe.evaluation import Evaluation


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
    """R from which on executors are added."""

    scale_down_ratio: Annotated[Number, Field(gt=0)] = 0.3
    """R down from which one executor is removed."""

    _order = (*AutoscalePolicy._order, ("scale_up_ratio", "above", "scale_down_ratio"))

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

        Takes over `spark.executor.instances`, with which such a job begins, and where it has none
        `spark.dynamicAllocation.initialExecutors`. Settings of other families are left alone, so
        the whole configuration of a job can be passed in. The stream declared with this policy must
        not enable Spark's own allocation any more.

        Raises:
            DeclarationError: a setting of the family is unknown or has no usable value, or the job
                has its allocation switched off.
        """
        return cls(**policy_fields(conf))

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """The decision for one evaluation.

        An increase starts from the executors that are registered and stay, and not from those
        requested, and overrides what is outstanding, as in Spark:
        target = max(min(max, staying + max(round(R), 1)), min).
        """
        thresholds = (self.scale_up_ratio, self.scale_down_ratio, self.max_lag)
        return rules.decide(rules.Case(*thresholds, bounds, evaluation))
