"""What a user declares of backpressure: live limits, and how limits are retuned. Pure."""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool

from dagster_sparkscale.declare.cron import schedule_faults
from dagster_sparkscale.declare.declaration import Declaration, Number, Seconds
from dagster_sparkscale.declare.faults import shown
from dagster_sparkscale.declare.part import Drift, Part, StreamOfParts
from dagster_sparkscale.declare.rates import (
    ENABLED,
    INITIAL_RATE,
    Rate,
    check_rates,
    in_text,
    is_on,
)
from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan
from dagster_sparkscale.driver.settings import BACKPRESSURE, DECLARED_FIRST_RATE, RATES, RECEIVER
from dagster_sparkscale.durations import in_units

_OF_ONE_ESTIMATOR = {
    "target_ratio": "work",
    "proportional": "pid",
    "integral": "pid",
    "derivative": "pid",
}
"""Fields that mean nothing to the other one."""


class BackpressurePolicy(Declaration, Part):
    """Limits what the sources of a stream may take, so that batches fit into their interval.

    The driver estimates after each batch what the next one can take, and gives it to the sources
    that take limits while they run: receivers of DStreams, and Python data sources that look (as
    `kinesis-direct` does). Rates are records per second, of one source each.
    """

    tunable: ClassVar[bool] = True
    reserved: ClassVar[Mapping[str, str]] = {
        BACKPRESSURE: "backpressure",
        RATES: "the operation set_limits",
    }
    drifts: ClassVar[Mapping[str, Drift]] = {
        # All else that is shown of it is of another estimator then, or of none.
        "backpressure": Drift(limit=True, alone=True),
        "backpressure.": Drift(limit=True),
    }

    estimator: Literal["work", "pid"] = "work"
    """`work`: by how long a record of late has taken. `pid`: Spark's own `PIDRateEstimator`."""

    initial_rate: Rate | None = None
    """What a source begins with, until there is an estimate. None: `min_rate`, from which it grows
    within a few batches; with `pid` `max_rate`, and without that, as in Spark, no limit."""

    min_rate: Rate = 100.0
    """No limit is below it. Spark's default (spark.streaming.backpressure.pid.minRate)."""

    max_rate: Rate | None = None
    """No limit is above it. None: as far as the stream can keep up."""

    target_ratio: Annotated[Number, Field(gt=0, le=1)] = 0.9
    """The share of the batch interval that a batch is to take. For `work`."""

    proportional: Annotated[Number, Field(ge=0)] = 1.0
    """The weight of the last error. For `pid`."""

    integral: Annotated[Number, Field(ge=0)] = 0.2
    """The weight of what waits. For `pid`."""

    derivative: Annotated[Number, Field(ge=0)] = 0.0
    """The weight of the change of the error. For `pid`."""

    sources: tuple[Annotated[str, Field(min_length=1, max_length=255)], ...] = ()
    """The sources that are limited, by name. Empty: each that takes live limits."""

    _order = (("initial_rate", "at most", "max_rate"),)

    def _faults(self) -> Iterator[str]:
        least = f"min_rate = {self.min_rate:g}"
        if "min_rate" not in self.model_fields_set:
            least += ", its default; give a lower min_rate as well"
        for field in ("max_rate", "initial_rate"):
            rate: float | None = getattr(self, field)
            if rate is not None and rate < self.min_rate:
                yield f"{field} = {rate:g}: must be at least {least}"
        yield from super()._faults()
        for field, estimator in _OF_ONE_ESTIMATOR.items():
            if field in self.model_fields_set and not self.heeds(field):
                right = f"drop it, or give estimator={estimator!r}, which it is for"
                yield f"{field} = {getattr(self, field):g}: {right}"
        for name, count in Counter(self.sources).items():
            if count > 1:
                yield f"sources = {shown(self.sources)}: {name!r} must be there once"

    def heeds(self, field: str) -> bool:
        """Whether its estimator goes by this field."""
        return _OF_ONE_ESTIMATOR.get(field, self.estimator) == self.estimator

    def covers_receivers(self, receivers: int) -> bool:
        """Whether each of this many receivers is limited, so that what all of them begin with
        (Spark knows one setting for that) is not forced on one that stays without a limit."""
        named = [name for name in self.sources if name.startswith(RECEIVER)]
        return receivers > 0 and (not self.sources or len(named) >= receivers)

    def settings(self, stream: StreamOfParts) -> dict[str, str]:
        plan = EstimatorPlan(**self.model_dump())
        made = {BACKPRESSURE: plan.to_json()}
        if stream.kind != "dstream":
            return made
        # The settings of the cluster may turn it on for all streams: two would fight.
        made[ENABLED] = "false"
        # Receivers begin before anybody can state a limit to them. Spark reads a whole number.
        if plan.first_rate is not None and self.covers_receivers(stream.pinned):
            made[INITIAL_RATE] = str(max(1, int(plan.first_rate)))
            if self.sources:
                # With more receivers than are declared some have no limit, which they are told.
                made[DECLARED_FIRST_RATE] = ""
        return made

    def declared(self, stream: StreamOfParts) -> dict[str, str]:
        heeded = {name for name in type(self).model_fields if self.heeds(name)}
        values = self.model_dump(include=heeded - {"estimator"}, exclude_none=True)
        fields = {f"backpressure.{name}": in_text(value) for name, value in values.items()}
        return {"backpressure": self.estimator, **fields}

    def check(self, stream: StreamOfParts) -> None:
        for name in self.sources:
            id = name.removeprefix(RECEIVER)
            if id != name and not stream.pinned:
                raise ValueError(
                    f"backpressure.sources: drop {name!r}; the stream has no receivers"
                )
            if id != name and not (id.isascii() and id.isdecimal()):
                raise ValueError(
                    f"backpressure.sources: {name!r}: must be a receiver by its stream id, as "
                    "'receiver-0' is"
                )
        if is_on(stream.spark_conf):
            raise ValueError(
                f"spark_conf: drop {ENABLED} = true, or backpressure; two estimators would fight "
                'over the same limits (backpressure=BackpressurePolicy(estimator="pid") is '
                "Spark's own)"
            )
        if INITIAL_RATE in stream.spark_conf:
            raise ValueError(
                f"spark_conf: drop {INITIAL_RATE}; it is set by backpressure.initial_rate"
            )
        check_rates("backpressure", {"min_rate": self.min_rate}, stream.batch_interval)
        self._check_beside_autoscale(stream)

    def _check_beside_autoscale(self, stream: StreamOfParts) -> None:
        """Refuse a share of the batch interval at which the autoscaler takes back what it gave.

        At the limit R is `target_ratio`, and one executor more makes that `least / (least + 1)` of
        it. At or below `scale_down_ratio` it is removed, the limit holds again, and it is added
        again. Where the thresholds do that without any limit, no limit makes it worse. Only a
        `RatioPolicy`, or what has its thresholds, is checked.
        """
        scale_up = getattr(stream.autoscale, "scale_up_ratio", None)
        scale_down = getattr(stream.autoscale, "scale_down_ratio", None)
        if self.estimator != "work" or scale_up is None or scale_down is None:
            return
        target, least = self.target_ratio, stream.bounds.minimum
        left = least / (least + 1)
        if target * left <= scale_down < scale_up * left:
            raise ValueError(
                f"backpressure.target_ratio = {target:g}: must be above {scale_down / left:g}; "
                f"with one executor more R would be no higher than autoscale.scale_down_ratio = "
                f"{scale_down:g}, and that executor removed again"
            )


NIGHTLY = "nightly"
_FROM, _TO = 3, 6
"""Hours of the night between which streams are looked over that declare no other time. None of
them is one that a change to or from summer time leaves out."""


class Retune(Declaration):
    """How the limits of a stream are looked over, from what was seen of it."""

    schedule: str | None = NIGHTLY
    """When, as cron has it. `nightly`: each night between 3 and 6, at a minute that follows from
    the stream's name, so that a hundred streams are not restarted in the same one. None: only when
    somebody runs `retune_backpressure`."""

    timezone: str | None = None
    """The time zone of `schedule`, such as Europe/Berlin. None: UTC."""

    apply: StrictBool = False
    """Whether the schedule's runs change anything. False: they only report."""

    history: Seconds = 7 * 86400.0
    """How far back it looks, in seconds."""

    least_gain: Annotated[Number, Field(gt=0, le=10)] = 0.2
    """A value is changed only where the recommended one differs by this share of it."""

    verify_after: Seconds = 7200.0
    """Seconds after a change in which it is seen whether the stream does worse; then the values of
    before are put back."""

    hands_off: Seconds = 7 * 86400.0
    """Seconds for which a stream is left alone after a person has set its limits."""

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        cron = None if self.schedule is None else self.cron("")
        yield from schedule_faults("schedule", cron, self.timezone)
        if self.verify_after >= self.history:
            yield (
                f"verify_after = {in_units(self.verify_after)}: must be below "
                f"history = {in_units(self.history)}"
            )

    def cron(self, stream: str) -> str | None:
        """When a stream of this name is looked over, as cron has it; None: never by itself."""
        if self.schedule != NIGHTLY:
            return self.schedule
        minute = zlib.crc32(stream.encode()) % (60 * (_TO - _FROM))
        return f"{minute % 60} {_FROM + minute // 60} * * *"
