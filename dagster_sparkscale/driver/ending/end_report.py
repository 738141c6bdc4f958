"""What a driver leaves for when it can't be asked any more. Pure.

For cluster managers that share a folder with it, each part is a file beside its announcement,
`took.json` and so on. Others get the whole report as one JSON object in a file of its own, such as
the termination message of a pod, or find it in the log. The rules of the wire hold (`wire.py`): a
field may be added, with a default, and none may change what it means.
"""

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from dagster_sparkscale.driver.tracebacks import error_of

MARKER = "sparkscale: last words "
"""Comes before the object in the log. Of several the last one counts."""
PARTS = ("took", "fenced", "stopped", "raised", "slots", "lineage")
"""The parts of a report: the fields, and, with `.json`, the files beside the announcement."""
LONGEST = 2048
"""Characters of the object, all of them ASCII: what Kubernetes keeps whole of a termination message
beside four other containers, such as those that a mesh adds (12 KiB for all, 4 KiB for each)."""

NOT_CLEAN = 124
"""The exit code of a driver that was asked to stop and did not end in good order; as `timeout` has
it for what it had to end."""

Outcome = Literal["completed", "failed", "cut"]
"""What became of a driver: it did all, or what it was in the middle of when it was asked to stop;
it failed; or it was cut off when it was asked to stop."""

_RAISED = 200
_QUERY_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
"""Spark's words of a streaming query, with two ids that take the room of why it has ended."""
_PACKAGES = re.compile(r"^(?:[a-z]\w*\.)+(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Slots:
    """The task slots for want of which a real-time query did not run."""

    needed: int
    """Slots that the query needs at once; or all queries, where `declared`."""
    free: int
    """Slots that were free."""
    registered: int | None = None
    """Slots that there were, free or not; None: not known."""
    declared: bool = False
    """Whether the driver waited for the declared slots in vain, and started no query: else Spark
    refused one."""

    @property
    def in_all(self) -> int:
        """Slots that the driver needs, with those that were taken."""
        return self.needed + max(0, (self.registered or 0) - self.free)


@dataclass(frozen=True, slots=True)
class LineageEnd:
    """The last event of a driver's lineage."""

    kind: str
    """`COMPLETE`, `FAIL` or `ABORT`."""
    told: bool = False
    """Whether the lineage server has taken it from the driver."""


@dataclass(frozen=True, slots=True)
class StoppedQuery:
    """How a Structured Streaming query, or the one graph of a DStreams application, was ended."""

    name: str
    drained: bool | None = None
    """True: between two batches. False: within one, or with data received that no batch had yet;
    the next start does it, or does it again. None: it can't be told."""
    batch_id: int | None = None
    """The last batch that its checkpoint has as done, by number. DStreams: by its time, epoch
    milliseconds. None where there is none, or it can't be told."""
    repeats: bool = False
    """Whether it ended between two batches, and its checkpoint does not have the last of them yet,
    as its progress is tracked asynchronously: the next start does them again."""

    def in_words(self) -> str:
        how = {True: "drained", False: "cut", None: "unknown how"}[self.drained]
        if self.repeats:
            how = "ended between two batches, the last of which the next start does again"
        last = "no batch" if self.batch_id is None else f"batch {self.batch_id}"
        return f"{self.name}: {how}, {last} done"


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a driver has ended that was asked to stop."""

    at: float
    """Seconds since the epoch, by the driver's clock."""
    graceful: bool
    """Whether it was to end in good order, as it was asked last."""
    ended_itself: bool
    """Whether its program ended by itself, and did not have to be ended."""
    queries: tuple[StoppedQuery, ...] = ()
    """The queries that were active when the stop was requested."""
    sigterm: bool = False
    """Whether it was a SIGTERM that asked first, and no request."""

    @property
    def clean(self) -> bool:
        """Whether nothing was cut. What can't be told is no clean end."""
        return self.ended_itself and all(query.drained for query in self.queries)

    def in_words(self) -> str:
        """One line for a log or a report."""
        if self.ended_itself:
            text = "the program has ended by itself"
        elif self.graceful:
            text = "the program did not end in time and was ended"
        else:
            text = "the program was ended at once"
        return "; ".join([text, *(query.in_words() for query in self.queries)])


@dataclass(frozen=True, slots=True)
class EndReport:
    """What is known of a driver's end so far. One that is killed can't add to it."""

    took: bool = False
    """Whether its mark may be in the checkpoint, unless it was fenced off."""
    fenced: str | None = None
    """Why it may not have its checkpoint, or has lost it to another; None: it was not so."""
    stopped: Stopped | None = None
    """How it has ended, having been asked to."""
    raised: str | None = None
    """What its program, or its start, has died of, in one line: `ValueError: no such topic`; of a
    program that ended itself with a text (`sys.exit("no such topic")`) that text."""
    slots: Slots | None = None
    """The task slots that a real-time query lacked; None: none did."""
    lineage: LineageEnd | None = None
    """How its lineage was told to have ended; None: it tells none, or did not come to it."""

    def outcome(self, code: int) -> tuple[Outcome, str | None]:
        """What became of the driver, and why where it did not complete, in words.

        Args:
            code: its exit code.
        """
        if self.fenced is not None:
            return "failed", self.fenced
        if self.stopped is not None:
            return ("completed", None) if self.stopped.clean else ("cut", self.stopped.in_words())
        if self.raised is not None:
            return "failed", self.raised
        return ("failed", f"exit code {code}") if code else ("completed", None)

    def as_json(self) -> str:
        """The object, in one line of at most `LONGEST` characters."""
        report = self
        while len(text := json.dumps(asdict(report))) > LONGEST:
            report = report._shorter()
        return text

    def in_file(self, part: str) -> dict[str, Any]:
        """What the file of a part of it holds."""
        if part == "stopped" and self.stopped is not None:
            return asdict(self.stopped)
        for name, field in (("slots", self.slots), ("lineage", self.lineage)):
            if part == name and field is not None:
                return asdict(field)
        return {"fenced": {"reason": self.fenced}, "raised": {"raised": self.raised}}.get(part, {})

    def _shorter(self) -> "EndReport":
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
        return replace(self, fenced=_half(self.fenced), stopped=stopped, raised=_half(self.raised))


def _short(query: StoppedQuery) -> StoppedQuery:
    return replace(query, name=query.name[: len(query.name) // 2])


def _half(text: str | None) -> str | None:
    return text and text[: len(text) // 2]


def _first_cause(trace: list[str]) -> str:
    """The first cause in a stack trace of the JVM; empty: none is known."""
    causes = [each for each in trace if each.startswith(("Caused by: ", ": "))]
    if not causes:
        return ""
    cause = _PACKAGES.sub("", causes[-1].partition(": ")[2], count=1)
    # What Kubernetes has said stands behind what it was asked.
    kind, asked, said = cause.partition("Failure executing: ")
    return kind + said.partition("Message: ")[2] if asked and "Message: " in said else cause


def raised(error: BaseException) -> str:
    """What was raised, as Python tells it at the end, in one line of `_RAISED` characters.

    Of what the JVM has raised, its first cause: that a call has failed says nothing. Of what Python
    has raised in a task of a query, the end of its traceback.
    """
    try:
        lines = str(error).splitlines()
    except Exception:  # it can't even be shown
        lines = []
    text = next(iter(lines), "")
    if text.startswith("An error occurred while calling "):  # py4j's words
        text = _first_cause(lines) or text
    if failed := _QUERY_FAILED.match(text):
        text = error_of(lines) or _PACKAGES.sub("", text[failed.end() :], count=1)
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if text and isinstance(error, SystemExit):
        line = text
    shown = "".join(each if each.isprintable() else " " for each in line)
    return shown if len(shown) <= _RAISED else f"{shown[: _RAISED - 3]}..."
