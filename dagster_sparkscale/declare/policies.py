"""The autoscale policies a user can declare. How they decide is in `autoscale/`."""

from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from dagster_sparkscale.declare.declaration import Declaration, DeclarationError, Seconds
from dagster_sparkscale.durations import parse_duration

_SPARK_PREFIX = "spark.streaming.dynamicAllocation."
# Spark's key -> our field. `enabled` is a switch of Spark's own and has no field here.
_SPARK_FIELDS = {
    "scalingInterval": "interval",
    "scalingUpRatio": "scale_up_ratio",
    "scalingDownRatio": "scale_down_ratio",
    "minExecutors": "min_executors",
    "maxExecutors": "max_executors",
}


class AutoscalePolicy(Declaration):
    """What every policy has: when it is evaluated and between which numbers it may move."""

    interval: Seconds = 60.0
    """Seconds between two evaluations, and the length of the window each of them looks at."""

    min_executors: int | None = Field(default=None, ge=1)
    """Fewest executors. None: 1, or as many as the stream has receivers (as Spark does)."""

    max_executors: int | None = Field(default=None, ge=1)
    """Most executors. None: as many as `spark.cores.max` and the cluster admit."""

    initial_executors: int | None = Field(default=None, ge=1)
    """Executors a new driver starts with. None: the minimum."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low, high, initial = self.min_executors, self.max_executors, self.initial_executors
        if low is not None and high is not None and high < low:
            raise ValueError(f"max_executors = {high}: must be at least min_executors = {low}")
        if initial is not None and low is not None and initial < low:
            raise ValueError(
                f"initial_executors = {initial}: must be at least min_executors = {low}"
            )
        if initial is not None and high is not None and initial > high:
            raise ValueError(
                f"initial_executors = {initial}: must be at most max_executors = {high}"
            )
        return self


class RecoveryPolicy(Declaration):
    """How a driver that failed is started again: with growing pauses, and not for ever."""

    first_delay: Seconds = 10.0
    """Seconds between the first failure and the restart; doubled for each further one."""

    longest_delay: Seconds = 300.0
    """Seconds no pause exceeds."""

    limit: int = Field(default=5, ge=1, le=20)
    """Restarts within `within` after which the stream is left for a person to look at. At most 20:
    that many starts every cluster manager remembers."""

    within: Seconds = 3600.0
    """Seconds over which restarts are counted."""

    @model_validator(mode="after")
    def _pauses_ordered(self) -> Self:
        if self.longest_delay < self.first_delay:
            raise ValueError(
                f"longest_delay = {self.longest_delay:g}: must be at least "
                f"first_delay = {self.first_delay:g}"
            )
        return self


class RatioPolicy(AutoscalePolicy):
    """Scale by R, the mean batch processing time divided by the batch interval.

    R at or above `scale_up_ratio`: add round(R) executors, at least one. R at or below
    `scale_down_ratio`: remove one. In between: hold. The defaults are those Spark's
    `org.apache.spark.streaming.scheduler.ExecutorAllocationManager` ships.

    Where the source tells how far behind the stream is, and that is above `max_lag`, nothing is
    removed whatever R is, and the stream counts as overloaded unless it is catching up.
    """

    scale_up_ratio: float = Field(default=0.9, gt=0, allow_inf_nan=False)
    scale_down_ratio: float = Field(default=0.3, gt=0, allow_inf_nan=False)

    max_lag: Seconds | None = None
    """How far behind the tip of its source the stream may be, in seconds. None: as far as it
    likes. For sources that tell; where none does, R alone decides."""

    @model_validator(mode="after")
    def _up_above_down(self) -> Self:
        if self.scale_up_ratio <= self.scale_down_ratio:
            raise ValueError(
                f"scale_up_ratio = {self.scale_up_ratio}: must be above "
                f"scale_down_ratio = {self.scale_down_ratio}"
            )
        return self

    @classmethod
    def spark_12133(
        cls,
        *,
        min_executors: int | None = None,
        max_executors: int | None = None,
        initial_executors: int | None = None,
    ) -> Self:
        """The thresholds of the SPARK-12133 design document: up above 0.9, down below 0.5."""
        return cls(
            scale_up_ratio=0.9,
            scale_down_ratio=0.5,
            min_executors=min_executors,
            max_executors=max_executors,
            initial_executors=initial_executors,
        )

    @classmethod
    def from_spark_conf(cls, conf: Mapping[str, str]) -> Self:
        """The policy an existing job has in its `spark.streaming.dynamicAllocation.*` settings.

        Takes `spark.dynamicAllocation.initialExecutors` over as well. Settings of other families
        are left alone, so the whole configuration of a job can be passed in. The stream declared
        with this policy must not enable Spark's own allocation any more.

        Raises:
            DeclarationError: a setting of the family is unknown or has no usable value.
        """
        fields: dict[str, float | int] = {}
        for key, text in conf.items():
            if key == "spark.dynamicAllocation.initialExecutors":
                field = "initial_executors"
            elif key.startswith(_SPARK_PREFIX):
                short = key.removeprefix(_SPARK_PREFIX)
                if short in ("enabled", "testing"):
                    continue
                if short not in _SPARK_FIELDS:
                    known = ", ".join(_SPARK_PREFIX + name for name in _SPARK_FIELDS)
                    raise DeclarationError(f"{key}: not a setting Spark has; it has {known}")
                field = _SPARK_FIELDS[short]
            else:
                continue
            try:
                fields[field] = _PARSERS[field](str(text))
            except ValueError as error:
                raise DeclarationError(f"{key} = {text!r}: {error}") from None
        return cls(**fields)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be a number") from None


_PARSERS = {
    "interval": parse_duration,
    "scale_up_ratio": _number,
    "scale_down_ratio": _number,
    "min_executors": _whole,
    "max_executors": _whole,
    "initial_executors": _whole,
}
