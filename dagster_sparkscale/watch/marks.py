"""Texts that are remembered only to be compared: where room is short, by a mark. Pure."""

import zlib

SHORT = 20
"""Characters up to which a text is remembered as it is."""
_SIGN = "#"
_LONG = len(_SIGN) + 6


def mark(text: str) -> str:
    """A short text that stands for `text`, or `text` where it is short. The mark of a mark is the
    same."""
    if len(text) <= SHORT:
        return text
    # Of two texts, one after the other, 24 bits tell the one from the other.
    return f"{_SIGN}{zlib.crc32(text.encode(errors='replace')) >> 8:06x}"


def same(one: str | None, other: str | None) -> bool:
    """Whether two texts are the same, each of which may be remembered by its mark."""
    if one == other or one is None or other is None:
        return one == other
    if not (_is_mark(one) or _is_mark(other)):
        return False
    return mark(one) == mark(other)


def _is_mark(text: str) -> bool:
    return len(text) == _LONG and text.startswith(_SIGN)
