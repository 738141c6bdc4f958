"""Live limits of sources, as they are remembered and handed to drivers. Pure."""

import json
from collections.abc import Mapping

from dagster_sparkscale.driver.backpressure.rates import check
from dagster_sparkscale.driver.wire import RATES

Rates = dict[str, dict[str, float]]


def checked(rates: Mapping[str, Mapping[str, float]]) -> Rates:
    """`rates` as an agent takes them: numbers that are whole as such, and no source without limits.

    Raises:
        BadRates: a limit makes no sense; the text names it, its value and what would be right.
    """
    whole = _whole_numbers(rates)
    check(whole)
    return {source: limits for source, limits in whole.items() if limits}


def at_start(rates: Mapping[str, Mapping[str, float]] | None) -> dict[str, str]:
    """The Spark settings by which a driver begins with the limits that were set last.

    They are not checked again: what another release has remembered keeps no stream from starting.
    The driver says what it can't make sense of.
    """
    return {RATES: json.dumps(_whole_numbers(rates))} if rates else {}


def _whole_numbers(rates: Mapping[str, Mapping[str, float]]) -> Rates:
    return {
        source: {name: _whole(value) for name, value in limits.items()}
        for source, limits in rates.items()
    }


def _whole(value: float) -> float:
    """What comes back from a store as 5.0 was 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
