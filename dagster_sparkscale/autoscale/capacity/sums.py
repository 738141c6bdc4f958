"""The sum that a size comes from, in words. Pure."""

from math import ceil, inf

from dagster_sparkscale.autoscale.capacity.sizing import ALMOST, Size

_TOLD = 0.05
"""Executors from which on a part is told: fewer would be 0.0."""


def told(
    size: Size, *, fluid: float, smallest: int, first: int, price: float, waiting: float
) -> str:
    """The sum of a size; its parts come to it, but where no number catches up at once.

    Args:
        fluid: executors that keep up where tasks run in no waves.
        smallest: the fewest executors that have a place for a task.
        first: the fewest executors that are worth a try, as fewer have failed; 1: none have.
        price: executor-minutes that a late minute costs.
        waiting: seconds of the load that wait beyond what is usual.
    """
    each = f"{_number(size.rate)} records/s"
    if size.keep_up == inf:
        most = f"{size.executors} bring most of what can be had"
        return f"no number of executors keeps up with {each}; {most}"
    parts = [f"needs {fluid:.1f} executors for {each} ({_number(size.each)} each)"]
    if (waves := size.keep_up - fluid) >= _TOLD:
        parts.append(f"{waves:.1f} as tasks run in whole waves")
    if size.catch_up == inf:
        parts.append(f"no number of them catches up {waiting:.0f} s at once")
    else:
        parts += _beside(size, smallest, first, price, waiting)
    return f"{', '.join(parts)}: {size.executors}"


def _number(value: float) -> str:
    """Write a number with the digits that the sum needs to be followed."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _beside(size: Size, smallest: int, first: int, price: float, waiting: float) -> list[str]:
    """What there is beside the executors that keep up, or that is spared of them."""
    if (fewer := size.keep_up - size.executors) > 0:
        spared = f"{fewer:.1f} fewer, as what waits meanwhile is not late"
        return [spared] if fewer >= _TOLD else []
    parts = []
    exact = max(size.keep_up, size.catch_up)
    whole = ceil(exact * ALMOST)
    if (extra := exact - size.keep_up) >= _TOLD:
        parts.append(f"{extra:.1f} to catch up {waiting:.0f} s")
    if whole - exact >= _TOLD:
        parts.append(f"{whole - exact:.1f} to round up")
    if (place := max(smallest, whole) - whole) > 0:
        parts.append(f"{place} to have a place for a task")
        whole += place
    if (more := max(first, whole) - whole) > 0:
        parts.append(f"{more} as fewer have failed at such a load")
    if (rest := size.executors - whole - more) > 0:
        parts.append(f"{rest} for its fluctuations at a price of {price:g}")
    return parts
