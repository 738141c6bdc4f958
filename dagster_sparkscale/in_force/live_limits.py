"""Live limits of sources: the form in which records and drivers have them. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dagster_sparkscale.clusters.agents.change import Change
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.driver.backpressure.rates import check
from dagster_sparkscale.driver.settings import RATES
from dagster_sparkscale.observe.status import Status

Rates = dict[str, dict[str, float]]


@dataclass(frozen=True)
class SetRates(Change):
    """Sets the live limits of all sources: a source that is not named has none afterwards. The
    agent answers once it has them.

    Raises:
        BadRates: a limit makes no sense; the text names it, its value and what would be right.
    """

    rates: Mapping[str, Mapping[str, float]]
    """Limits by source and name: maxRate (records per second), maxRecordsPerTrigger,
    maxBytesPerTrigger and maxSpanPerTrigger (seconds). `*` stands for each source that is not
    named."""
    path: ClassVar[str] = "/v1/rates"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", checked(self.rates))

    @property
    def body(self) -> Mapping[str, Any]:
        return {"rates": self.rates, "absolute": True}

    def remembered(self, record: Record) -> Record:
        return replace(record, rates=self.rates)

    def unfinished(self, answer: Status) -> Change | None:
        # An agent of an older release does not know "absolute": it has kept what was not named.
        left: dict[str, Mapping[str, None] | None] = {}
        for source, limits in (answer.rates or {}).items():
            wanted = self.rates.get(source)
            if not wanted:
                left[source] = None
            elif surplus := [name for name in limits if name not in wanted]:
                left[source] = dict.fromkeys(surplus)
        return PatchRates(left) if left else None


@dataclass(frozen=True)
class PatchRates(Change):
    """Sets and removes single live limits: what is not named stays, and None removes one limit, or
    all of a source."""

    rates: Mapping[str, Mapping[str, float | None] | None]
    path: ClassVar[str] = "/v1/rates"

    @property
    def body(self) -> Mapping[str, Any]:
        return {"rates": self.rates}


def checked(rates: Mapping[str, Mapping[str, float]]) -> Rates:
    """Bring `rates` into the form that agents take: whole numbers as such, no source without
    limits.

    Raises:
        BadRates: a limit makes no sense; the text names it, its value and what would be right.
    """
    whole = _whole_numbers(rates)
    check(whole)
    return {source: limits for source, limits in whole.items() if limits}


def at_start(rates: Mapping[str, Mapping[str, float]] | None) -> dict[str, str]:
    """The Spark settings by which a driver begins with the limits that were set last.

    They are not checked again: limits of another release keep no stream from starting. The driver
    reports those that it does not understand.
    """
    return {RATES: json.dumps(_whole_numbers(rates))} if rates else {}


def _whole_numbers(rates: Mapping[str, Mapping[str, float]]) -> Rates:
    return {
        source: {name: _whole(value) for name, value in limits.items()}
        for source, limits in rates.items()
    }


def _whole(value: float) -> float:
    """Turn 5.0 back into 5, which a store may have changed."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
