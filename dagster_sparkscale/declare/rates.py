"""Rates, and Spark's own estimator of them. Pure."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from dagster_sparkscale.declare.declaration import Number

Rate = Annotated[Number, Field(gt=0, le=1e12)]
"""Records per second."""

ENABLED = "spark.streaming.backpressure.enabled"
"""Spark setting: its own estimator, for DStreams."""
INITIAL_RATE = "spark.streaming.backpressure.initialRate"
"""Spark setting: what a receiver begins with, records per second, whether or not `ENABLED`."""


def is_on(spark_conf: Mapping[str, str]) -> bool:
    """Whether these settings turn Spark's own estimator on."""
    return spark_conf.get(ENABLED, "").strip().lower() == "true"


def check_rates(owner: str, rates: Mapping[str, float | None], batch_interval: float) -> None:
    """Refuse rates by which a batch gets no record at all.

    Args:
        owner: the field that they are of.
        rates: records per second, by field; None: not given.
        batch_interval: seconds.
    """
    for field, rate in rates.items():
        if rate is not None and rate * batch_interval < 1:
            raise ValueError(
                f"{owner}.{field} = {rate:g}: must be at least {1 / batch_interval:g}, which is "
                f"one record in a batch interval of {batch_interval:g} s"
            )


def in_text(value: object) -> str:
    """The value of a field of limits, as drift shows it."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "all"
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
