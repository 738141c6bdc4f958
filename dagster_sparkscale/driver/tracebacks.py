"""Reading what Python said of an error, in a text of Spark's. Pure."""

from collections.abc import Sequence

_BEGINS = "Traceback (most recent call last):"


def error_of(lines: Sequence[str]) -> str | None:
    """The error that the last traceback in `lines` ends with, its first line, such as
    `ValueError: no such topic`; None: there is no traceback, or its end is missing.

    Frames are indented. What Spark says behind the error may be, too, as its plans are.
    """
    begun = [number for number, line in enumerate(lines) if line.rstrip().endswith(_BEGINS)]
    if not begun:
        return None
    rest = (line.rstrip() for line in lines[begun[-1] + 1 :])
    return next((line for line in rest if line and not line.startswith("  ")), None)
