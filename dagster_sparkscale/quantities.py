"""Quantities as people write them. Pure."""


def number(value: float) -> str:
    """A number in three digits, or whole where it is large: `0.25`, `12.5`, `1,240`."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
