"""Durations as users write them: seconds, `timedelta`, or Spark's own strings (`10s`, `2 min`).

Standard library only: sources read durations on executors too. Pure.
"""

import re
from datetime import timedelta
from typing import Any

# The suffixes of Spark's JavaUtils.timeStringAs, plus the plural words people write.
_SECONDS_PER_UNIT = {
    "us": 1e-6,
    "ms": 1e-3,
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_PATTERN = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*$")


def parse_duration(value: Any) -> float:
    """Seconds in `value`: a number of seconds, a `timedelta`, or text such as `500ms` or `2 min`.

    Raises:
        ValueError: the text is not a number followed by a unit of time.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError("must be a duration a number can hold") from None
    if isinstance(value, str) and (match := _PATTERN.match(value)):
        number, unit = match.groups()
        if factor := _SECONDS_PER_UNIT.get(unit.lower() or "s"):
            return float(number) * factor
    raise ValueError('must be seconds or a duration such as "10s", "500ms" or "2 min"')


def in_units(seconds: float) -> str:
    """A duration in the largest unit of which it is a whole number: `7 d`, `90 min`, `2.5 s`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def span(seconds: float) -> str:
    """A time as people say it: `4 s`, `3 min`, `5 h`, `2 d`."""
    for unit, length, most in (("s", 1, 100), ("min", 60, 6000), ("h", 3600, 360000)):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
