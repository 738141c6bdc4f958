"""Quantities as people write them. Pure."""

from collections.abc import Sequence

DASH = "-"
"""What stands for a number that is not known, in a table."""


def number(value: float) -> str:
    """A number in three digits, or whole where it is large: `0.25`, `12.5`, `1,240`."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def counted(number: int, what: str) -> str:
    """A number of things: `1 core`, `1,024 cores`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def named(names: Sequence[str], most: int) -> str:
    """Names, and how many more there are: `a, b and 1,022 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
