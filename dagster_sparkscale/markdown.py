"""Text as Dagster's pages show it. Pure."""

import re
import time
from collections.abc import Sequence

INLINE = 999
"""Characters of Markdown that Dagster's pages show in place; more is behind a click."""

ARROW = "\u2192"
"""The arrow on a page, as a browser may end a line within `->`."""

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|~&"} | {"\n": " ", "\r": " "})

# An empty picture, after which a browser may begin a line. Unlike a space of no width it is not in
# what is copied: a path must be one that can be pasted.
_BREAK = "![]()"
_LONG = re.compile(r"\S{25,}")
_PIECE = re.compile(r"\S{1,20}\Z|\S{1,19}[-/.,:;=&?$_]|\S{1,20}")

# What an event carries for programs, and pages do not show: as text it would stand there in full.
_BEGIN, _END = "<!--", "-->"
_GREATER = "\\u003e"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    # Else an address is a link as far as it goes, with the backslashes in it.
    return text.translate(_SPECIAL).replace("://", "\\://")


def fitted(text: str, most: int) -> str:
    """`escaped`, with words that may be broken where they are long: one that is not makes Dagster's
    page as wide as itself. As much of it as `most` characters hold."""
    if _LONG.search(text) is None:
        return cut(escaped(text), most)
    parts = [part for word in re.split(r"(\s+)", text[: most + 1]) for part in _breakable(word)]
    room, shown = most - 3, ""
    if sum(map(len, parts)) <= most:
        return "".join(parts)
    for part in parts:
        if len(shown) + len(part) > room:
            break
        shown += part
    return f"{shown}..."


def _breakable(word: str) -> list[str]:
    """A word, escaped; one that is long in its characters, with breaks between some."""
    if not _LONG.fullmatch(word):
        return [escaped(word)]
    # Broken there, an address is no link: it would be one to its first piece.
    scheme, mark, rest = word.rpartition("://")
    pieces = [*_PIECE.findall(scheme), *_PIECE.findall(mark + rest)]
    parts = []
    for number, piece in enumerate(pieces):
        parts += [_BREAK] * (number > 0) + [escaped(each) for each in piece]
    return parts


def cut(text: str, most: int) -> str:
    """`text`, or as much of it as `most` characters hold."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shortened(text: str, most: int) -> str:
    """Text in one line of at most so many characters, which can be stored: half a character, as the
    name of a file may have, becomes a question mark."""
    text = " ".join(text.split()).encode(errors="replace").decode()
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


# In a row, what may end in a backslash has a space behind it: some readers take the bar behind a
# backslash for an escaped one whatever is before.
def table(head: str, lines: Sequence[str]) -> str:
    """All lines as a table below `head`, whose columns are parted by bars."""
    columns = head.count("|") + 1
    return "\n".join([f"|{head}|", "|" + "-|" * columns, *lines])


def fitting(head: str, lines: Sequence[str], what: str, most: int = INLINE) -> str:
    """A table of as many lines as there is room for in `most` characters."""
    for shown in range(len(lines), 0, -1):
        more = f"\n\nand {len(lines) - shown} more {what}" if shown < len(lines) else ""
        text = table(head, lines[:shown]) + more
        if len(text) <= most:
            return text
    return ""


def hidden(said: str, text: str) -> str:
    """Markdown that shows `said` and carries `text`, which is JSON or has no ">" in it."""
    return f"{said}\n\n{_BEGIN}{text.replace('>', _GREATER)}{_END}"


def carried(markdown: object) -> str | None:
    """What `hidden` has hidden; None where there is nothing of it."""
    if not isinstance(markdown, str) or not markdown.endswith(_END):
        return None
    _, begun, text = markdown.removesuffix(_END).partition(_BEGIN)
    return text if begun else None
