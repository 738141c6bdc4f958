"""Text as Dagster's pages show it. Pure."""

import time

INLINE = 999
"""Characters of Markdown that Dagster's pages show in place; more is behind a click."""

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|~&"} | {"\n": " ", "\r": " "})


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return text.translate(_SPECIAL)


def cut(text: str, most: int) -> str:
    """`text`, or as much of it as `most` characters hold."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def clock(at: float, now: float | None = None) -> str:
    """A moment in UTC; without the day where that is the day of `now`. `?` where it is none, as a
    broken file may say."""
    try:
        moment = time.gmtime(at)
    except (ValueError, OverflowError, OSError):
        return "?"
    if now is None:
        return time.strftime("%Y-%m-%d %H:%M UTC", moment)
    same = time.gmtime(now)[:3] == moment[:3]
    return time.strftime("%H:%M" if same else "%m-%d %H:%M", moment)
