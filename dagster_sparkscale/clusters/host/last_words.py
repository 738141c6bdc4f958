"""What a program has died of, as the end of its log tells it. Pure."""

import re

_BEGINS = "Traceback (most recent call last):"
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(: .*)?")
_LONGEST = 200


def raised(log: str) -> str | None:
    """What the last traceback in `log` says was raised, in one line of `_LONGEST` characters; None
    where there is none.

    Whoever has died with an exit code and no traceback after an earlier one has that one told: it
    is the last that the log knows.
    """
    _, begun, after = log.rpartition(_BEGINS)
    for line in after.splitlines() if begun else ():
        # Others may write into the same log in between.
        if found := _RAISED.fullmatch(line.rstrip()):
            text = f"{found[1]}{found[2] or ''}"
            shown = "".join(each if each.isprintable() else " " for each in text)
            return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
    return None
