"""How the driver is to limit what its sources take. Pure."""

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from .measured import check_rates

ESTIMATORS = ("work", "pid")
LARGEST_RATE = 1e12
"""Records per second. More is a mistake."""


class BadEstimatorPlan(ValueError):
    """The text is no plan; the error names the field, its value and what would be right."""


@dataclass(frozen=True)
class EstimatorPlan:
    """What is declared of backpressure, by the fields of `declare.backpressure.BackpressurePolicy`.
    Rates are records per second of one source."""

    estimator: str = "work"
    initial_rate: float | None = None
    min_rate: float = 100.0
    max_rate: float | None = None
    target_ratio: float = 0.9
    proportional: float = 1.0
    integral: float = 0.2
    derivative: float = 0.0
    sources: tuple[str, ...] = ()

    @property
    def first_rate(self) -> float | None:
        """What a source may take before there is an estimate; None: as much as it likes, as
        Spark's own estimator has it."""
        if self.initial_rate is not None:
            return self.initial_rate
        return self.min_rate if self.estimator == "work" else self.max_rate

    def limits(self, source: str) -> bool:
        """Whether that source is one of those that are limited."""
        return not self.sources or source in self.sources

    def bounded(self, rate: float) -> float:
        """`rate`, between `min_rate` and `max_rate`."""
        return max(self.min_rate, rate if self.max_rate is None else min(rate, self.max_rate))

    def of_several(self, sources: int) -> "EstimatorPlan":
        """The plan with the rates of so many sources together."""
        most, first = self.max_rate, self.initial_rate
        return replace(
            self,
            min_rate=self.min_rate * sources,
            max_rate=None if most is None else most * sources,
            initial_rate=None if first is None else first * sources,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), allow_nan=False)


_OPTIONAL = ("initial_rate", "max_rate")
_WEIGHTS = ("proportional", "integral", "derivative")


def plan_of(text: str) -> EstimatorPlan:
    """Read the JSON of `EstimatorPlan.to_json`. A missing field has its default; an unknown one, of
    a newer release, is passed over.

    Raises:
        BadEstimatorPlan: the text is something else, or a value makes no sense.
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadEstimatorPlan(f"it is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise BadEstimatorPlan(f"{_shown(told)}: must be an object")
    given = {field.name: told[field.name] for field in fields(EstimatorPlan) if field.name in told}
    for name, value in given.items():
        _check(name, value)
    plan = EstimatorPlan(**{**given, "sources": tuple(given.get("sources", ()))})
    try:
        check_rates(plan.min_rate, plan.max_rate, plan.initial_rate)
    except ValueError as error:
        raise BadEstimatorPlan(str(error)) from None
    return plan


def _check(name: str, value: Any) -> None:
    if name == "estimator":
        right, wanted = value in ESTIMATORS, " or ".join(ESTIMATORS)
    elif name == "sources":
        right = isinstance(value, list) and all(isinstance(s, str) and s for s in value)
        wanted = "a list of names"
    elif name in _WEIGHTS:
        right, wanted = _is_number(value) and value >= 0, "a number of at least 0"
    elif name == "target_ratio":
        right, wanted = _is_number(value) and 0 < value <= 1, "a number above 0, and at most 1"
    else:
        right = _is_number(value) and 0 < value <= LARGEST_RATE
        right, wanted = right or (value is None and name in _OPTIONAL), "records per second above 0"
    if not right:
        raise BadEstimatorPlan(f"{name} = {_shown(value)}: must be {wanted}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < math.inf  # NaN is not, either


def _shown(value: Any) -> str:
    return json.dumps(value)[:40]
