"""Limits that Spark reads once, when a stream starts. Pure.

Names and meaning of the options are Kafka's of Spark (`KafkaSourceProvider`), those of the settings
`org.apache.spark.streaming.StreamingConf`. All releases of Spark that run a stream here heed
`spark.streaming.backpressure.initialRate` (from 2.4 on: SPARK-18580), so there is no rule for those
before, where the maximum rate stood in for it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, StrictBool

from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.declaration import Declaration, Number, Records, Seconds
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
from dagster_sparkscale.driver.settings import SOURCE_OPTIONS, SOURCES
from dagster_sparkscale.durations import in_units

_SOURCE = re.compile(r"[A-Za-z0-9_-]{1,63}")
_OF_SPARKS_ESTIMATOR = ("min_rate", "proportional", "integral", "derivative")
_FIELDS = "limits."
"""Begins the fields of limits, as drift and errors name them."""
# Without dots: what has one, as kafka.sasl.jaas.config, is about a connection, and may be a secret.
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_BOUND = re.compile(r"[0-9]{1,19}(\.[0-9]{1,19})?[A-Za-z]{0,12}")


def _bounds(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    texts: dict[str, str] = {}
    for name, given in value.items():
        if not isinstance(name, str) or not _OPTION.fullmatch(name):
            raise ValueError(
                f"options: {shown(name)}: must be the name of an option that bounds a "
                'batch, such as "maxFilesPerTrigger"; all others belong in the program'
            )
        text = str(given)
        if isinstance(given, bool) or not _BOUND.fullmatch(text):
            raise ValueError(
                f'options: {name}: must be a number, or one with its unit, such as "10m"'
            )
        texts[name] = text
    return texts


class SourceLimits(Declaration):
    """What a query of Structured Streaming may read of one source for a batch.

    The program takes them by `.options(**stream_options("name of the source"))`. Spark reads them
    when the query starts, so others need a restart. The fields are the options of Kafka.
    """

    max_offsets_per_trigger: Records | None = None
    """Records of a batch, all partitions together. None: all that there are."""

    min_offsets_per_trigger: Records | None = None
    """Records that a batch waits for, `max_trigger_delay` at most. None: it does not wait."""

    max_trigger_delay: Annotated[Seconds, Field(ge=0.001)] | None = None
    """Seconds after which a batch no longer waits. None: Spark's default, 15 minutes."""

    options: Annotated[Mapping[str, str], BeforeValidator(_bounds)] = Field(default_factory=dict)
    """Options of other sources that bound a batch, such as {"maxFilesPerTrigger": 100}."""

    spark_options: ClassVar[Mapping[str, str]] = {
        "max_offsets_per_trigger": "maxOffsetsPerTrigger",
        "min_offsets_per_trigger": "minOffsetsPerTrigger",
        "max_trigger_delay": "maxTriggerDelay",
    }
    """What Spark calls each field."""

    # What is given by mistake may be a password, which belongs in the program.
    _secret_fields: ClassVar[frozenset[str]] = frozenset({"options"})

    @classmethod
    def _elsewhere(cls, name: str) -> str | None:
        """The options of other sources are declared by the names that Spark has for them."""
        first, *rest = name.split("_")
        option = first + "".join(map(str.capitalize, rest))
        if get_close_matches(name, cls.model_fields, cutoff=0.9) or not _OPTION.fullmatch(option):
            return None
        return f'an option of another source than Kafka is given by options={{"{option}": ...}}'

    _order = (("min_offsets_per_trigger", "at most", "max_offsets_per_trigger"),)

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        least = self.min_offsets_per_trigger
        if least is not None and self.max_offsets_per_trigger is None:
            yield (
                f"min_offsets_per_trigger = {least}: must have max_offsets_per_trigger beside it; "
                "a batch that has waited would take all that there is"
            )
        if self.max_trigger_delay is not None and least is None:
            yield (
                f"max_trigger_delay = {in_units(self.max_trigger_delay)}: drop it, or give "
                "min_offsets_per_trigger, which is what a batch waits for"
            )
        # Spark does not tell upper from lower case in the names of options.
        known = {name.lower(): field for field, name in self.spark_options.items()}
        named: dict[str, str] = {}
        for name in self.options:
            if name.lower() in known:
                yield f"options: drop {name}; it is set by {known[name.lower()]}"
            first = named.setdefault(name.lower(), name)
            if first != name:
                yield f"options: drop {name} or {first}; to Spark they are one option"

    def as_options(self) -> dict[str, str]:
        """The options for a source of Spark, by Spark's names."""
        made = dict(self.options)
        for field, name in self.spark_options.items():
            value = getattr(self, field)
            if value is not None:
                delay = field == "max_trigger_delay"
                made[name] = f"{round(value * 1000)}ms" if delay else str(value)
        return made


class StreamingLimits(Declaration, Part):
    """What the input of a DStream may take, in Spark's own settings. Rates are records per second.

    Spark reads them when the stream starts. `BackpressurePolicy` limits receivers while they run;
    beside it only `max_rate` makes sense here.
    """

    tunable: ClassVar[bool] = True
    drifts: ClassVar[Mapping[str, Drift]] = {_FIELDS: Drift(limit=True)}

    backpressure_enabled: StrictBool | None = None
    """Spark's own estimator. None: as the cluster's settings have it, else off."""

    initial_rate: Records | None = None
    """What each receiver begins with."""

    max_rate: Records | None = None
    """Records per second of each receiver. None: no limit."""

    min_rate: Rate | None = None
    """The lowest estimate of Spark's estimator for each receiver. None: 100."""

    proportional: Annotated[Number, Field(ge=0)] | None = None
    """The weight of the last error in Spark's estimator. None: 1."""

    integral: Annotated[Number, Field(ge=0)] | None = None
    """The weight of what waits in Spark's estimator. None: 0.2."""

    derivative: Annotated[Number, Field(ge=0)] | None = None
    """The weight of the change of the error in Spark's estimator. None: 0."""

    spark_settings: ClassVar[Mapping[str, str]] = {
        "backpressure_enabled": ENABLED,
        "initial_rate": INITIAL_RATE,
        "max_rate": "spark.streaming.receiver.maxRate",
        "min_rate": "spark.streaming.backpressure.pid.minRate",
        "proportional": "spark.streaming.backpressure.pid.proportional",
        "integral": "spark.streaming.backpressure.pid.integral",
        "derivative": "spark.streaming.backpressure.pid.derived",
    }
    """What Spark calls each field."""

    _order = (("initial_rate", "at most", "max_rate"), ("min_rate", "at most", "max_rate"))

    def settings(self, stream: StreamOfParts) -> dict[str, str]:
        given = {name: getattr(self, field) for field, name in self.spark_settings.items()}
        return {name: str(value).lower() for name, value in given.items() if value is not None}

    def declared(self, stream: StreamOfParts) -> dict[str, str]:
        values = self.model_dump(exclude_none=True)
        return {f"{_FIELDS}{name}": in_text(value) for name, value in values.items()}

    def check(self, stream: StreamOfParts) -> None:
        for field, setting in self.spark_settings.items():
            if getattr(self, field) is not None and setting in stream.spark_conf:
                raise ValueError(f"spark_conf: drop {setting}, or limits.{field}, which sets it")
        if self.max_rate is not None and not stream.pinned:
            raise ValueError(
                f"limits.max_rate = {self.max_rate}: drop it, or say how many receivers there are; "
                "it is of receivers"
            )
        policies = [part for part in stream.parts if isinstance(part, BackpressurePolicy)]
        enabled = self.backpressure_enabled
        if policies:
            self._check_beside(policies[0])
        elif not (is_on(stream.spark_conf) if enabled is None else enabled):
            self._refuse(
                _OF_SPARKS_ESTIMATOR,
                "drop it, or give limits.backpressure_enabled=True; it is of Spark's estimator",
            )
            if self.initial_rate is not None and not stream.pinned:
                raise ValueError(
                    f"limits.initial_rate = {self.initial_rate}: drop it, or give "
                    "limits.backpressure_enabled=True; without that it is heeded by receivers alone"
                )
        rates = {field: getattr(self, field) for field in ("initial_rate", "max_rate", "min_rate")}
        check_rates("limits", rates, stream.batch_interval)

    def _check_beside(self, policy: BackpressurePolicy) -> None:
        if self.backpressure_enabled:
            raise ValueError(
                "limits.backpressure_enabled = True: drop it, or backpressure; two estimators "
                "would fight over the same limits"
            )
        self._refuse(
            ("initial_rate", *_OF_SPARKS_ESTIMATOR),
            "drop it; with a BackpressurePolicy it is backpressure.{field}",
        )
        most = self.max_rate
        for field in ("min_rate", "initial_rate", "max_rate"):
            value = getattr(policy, field)
            if most is not None and value is not None and value > most:
                raise ValueError(
                    f"backpressure.{field} = {value:g}: must be at most limits.max_rate = {most}, "
                    "which no receiver exceeds"
                )

    def _refuse(self, fields: Iterable[str], right: str) -> None:
        for field in fields:
            if (value := getattr(self, field)) is not None:
                raise ValueError(f"limits.{field} = {value:g}: {right.format(field=field)}")


@dataclass(frozen=True)
class DeclaredLimits(Part):
    """What the queries of a stream may read of its sources, by the name of the source."""

    limits: Mapping[str, SourceLimits]

    tunable: ClassVar[bool] = True
    reserved: ClassVar[Mapping[str, str]] = {SOURCES: "limits", SOURCE_OPTIONS: "limits"}
    drifts: ClassVar[Mapping[str, Drift]] = {_FIELDS: Drift(limit=True)}

    def settings(self, stream: StreamOfParts) -> dict[str, str]:
        made = {
            f"{SOURCE_OPTIONS}{source}.{option}": value
            for source, limits in self.limits.items()
            for option, value in limits.as_options().items()
        }
        return {**made, SOURCES: json.dumps(sorted(self.limits))}

    def declared(self, stream: StreamOfParts) -> dict[str, str]:
        made: dict[str, str] = {}
        for source, limits in self.limits.items():
            name = f"{_FIELDS}{source}"
            options = {f"{name}.{option}": v for option, v in limits.as_options().items()}
            made |= options or {name: "no limit"}
        return made


def _by_name(value: Any) -> Any:
    right = 'such as {"clicks": SourceLimits(max_offsets_per_trigger=10_000)}'
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict of SourceLimits, {right}")
    seen: dict[str, str] = {}
    for name, limits in value.items():
        if not isinstance(limits, SourceLimits):
            raise ValueError(
                f"limits: {shown(name)} = {shown(limits)}: must be a SourceLimits, {right}"
            )
        if not isinstance(name, str) or not _SOURCE.fullmatch(name):
            raise ValueError(
                f"limits: {shown(name)}: must be the name of a source: letters, digits, "
                "underscores and hyphens, at most 63"
            )
        if name.lower() in seen:
            raise ValueError(
                f"limits: {name!r} and {seen[name.lower()]!r}: must have names that differ by "
                "more than upper and lower case"
            )
        seen[name.lower()] = name
    return value


LimitsOfSources = Annotated[Mapping[str, SourceLimits], BeforeValidator(_by_name)]
"""Limits by the name of the source."""
