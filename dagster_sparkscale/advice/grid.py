"""The policies that are tried for a recommendation. Pure."""

from collections.abc import Iterator
from itertools import product

from dagster_sparkscale.advice.specs import DECLARED, named
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.stream import Stream

UP, DOWN = (0.7, 0.8, 0.9), (0.3, 0.4, 0.5)
"""Thresholds of the ratio policy."""
WINDOWS = ("none", "10min")
"""Windows of the ratio policy before executors are removed."""
PRICES = (10, 40, 100, 200, 400)
"""Executor-minutes that a late minute costs."""
LOWER_MAXIMA = (0.5, 0.75)
"""Shares of the maximum."""
HIGHER_MINIMA = (2, 4)
"""Times the minimum."""


def policies_to_try(stream: Stream) -> list[str]:
    """The policies that this stream can have, each as a line of text."""
    return [each for each in _lines(stream) if _can_have(stream, each)]


def _lines(stream: Stream) -> Iterator[str]:
    yield from (f"capacity:price_of_lateness={price}" for price in PRICES)
    for up, down, window in product(UP, DOWN, WINDOWS):
        yield f"ratio:scale_up_ratio={up},scale_down_ratio={down},scale_down_window={window}"
    bounds = stream.bounds
    for base in ("capacity", DECLARED):
        if bounds.maximum is not None:
            for share in LOWER_MAXIMA:
                yield f"{base}:max_executors={round(share * bounds.maximum)}"
        for times in HIGHER_MINIMA:
            yield f"{base}:min_executors={times * bounds.minimum}"


def _can_have(stream: Stream, line: str) -> bool:
    """Whether a stream can be declared so: its other fields bound what it can have."""
    try:
        named(line, stream)
    except DeclarationError:
        return False
    return True
