"""The policies that are tried for a recommendation. Pure."""

from itertools import product

from dagster_sparkscale.declare.stream import Stream

UP, DOWN, WINDOWS = (0.7, 0.8, 0.9), (0.3, 0.4, 0.5), ("none", "10min")
"""Thresholds and scale-down windows of the ratio policy."""
PRICES = (10, 40, 100, 200, 400)
"""Executor-minutes that a late minute costs."""


def policies_to_try(stream: Stream) -> list[str]:
    """The policies, each as a line of text."""
    ratio = [
        f"ratio:scale_up_ratio={up},scale_down_ratio={down},scale_down_window={window}"
        for up, down, window in product(UP, DOWN, WINDOWS)
    ]
    return [*(f"capacity:price_of_lateness={price}" for price in PRICES), *ratio]
