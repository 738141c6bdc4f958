"""What a driver leaves for when it can't be asked any more, in one JSON object. Pure.

For cluster managers that share no folder with it: they are given the object in a file of their own,
such as the termination message of a pod, or find it in the log. The rules of the wire hold
(`wire.py`): a field may be added, with a default, and none may change what it means.
"""

import json
import re
from dataclasses import asdict, dataclass, replace

from .stop_report import Stopped, StoppedQuery

MARKER = "sparkscale: last words "
"""Comes before the object in the log. Of several the last one counts."""
FILE = "raised.json"
"""Has `raised` alone, for who shares a folder with the driver."""
LONGEST = 2048
"""Characters of the object, all of them ASCII: what Kubernetes keeps whole of a termination message
beside four other containers, such as those that a mesh adds (12 KiB for all, 4 KiB for each)."""

_RAISED = 200
_QUERY_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
"""Spark's words of a streaming query, with two ids that take the room of why it has ended."""
_PACKAGES = re.compile(r"^(?:[a-z]\w*\.)+(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class LastWords:
    """What a driver has told of itself so far. One that is killed can't add to it."""

    took: bool = False
    """Whether its mark may be in the checkpoint, unless it was fenced off."""
    fenced: str | None = None
    """Why it may not have its checkpoint, or has lost it to another; None: it was not so."""
    stopped: Stopped | None = None
    """How it has ended, having been asked to."""
    raised: str | None = None
    """What its program, or its start, has died of, in one line: `ValueError: no such topic`; of a
    program that ended itself with a text (`sys.exit("no such topic")`) that text."""

    def as_json(self) -> str:
        """The object, in one line of at most `LONGEST` characters."""
        words = self
        while len(text := json.dumps(asdict(words))) > LONGEST:
            words = words._shorter()
        return text

    def _shorter(self) -> "LastWords":
        """The report with one query less, drained ones first, so that it does not look cleaner than
        the end was; then with half of each text."""
        if self.stopped is not None and len(queries := self.stopped.queries) > 1:
            drained = [each for each in queries if each.drained]
            left = list(queries)
            left.remove((drained or left)[-1])
            return replace(self, stopped=replace(self.stopped, queries=tuple(left)))
        stopped = self.stopped
        if stopped is not None:
            stopped = replace(stopped, queries=tuple(map(_short, stopped.queries)))
        return LastWords(self.took, _half(self.fenced), stopped, _half(self.raised))


def _short(query: StoppedQuery) -> StoppedQuery:
    return replace(query, name=query.name[: len(query.name) // 2])


def _half(text: str | None) -> str | None:
    return text and text[: len(text) // 2]


def _first_cause(trace: list[str]) -> str:
    """The first cause in a stack trace of the JVM; empty: none is known."""
    told = [each for each in trace if each.startswith(("Caused by: ", ": "))]
    if not told:
        return ""
    cause = _PACKAGES.sub("", told[-1].partition(": ")[2], count=1)
    # What Kubernetes has said stands behind what it was asked.
    kind, asked, said = cause.partition("Failure executing: ")
    return kind + said.partition("Message: ")[2] if asked and "Message: " in said else cause


def raised(error: BaseException) -> str:
    """What was raised, as Python tells it at the end, in one line of `_RAISED` characters.

    Of what the JVM has raised, its first cause: that a call has failed says nothing.
    """
    try:
        lines = str(error).splitlines()
    except Exception:  # it can't even be shown
        lines = []
    text = next(iter(lines), "")
    if text.startswith("An error occurred while calling "):  # py4j's words
        text = _first_cause(lines) or text
    if failed := _QUERY_FAILED.match(text):
        text = _PACKAGES.sub("", text[failed.end() :], count=1)
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if text and isinstance(error, SystemExit):
        line = text
    shown = "".join(each if each.isprintable() else " " for each in line)
    return shown if len(shown) <= _RAISED else f"{shown[: _RAISED - 3]}..."
