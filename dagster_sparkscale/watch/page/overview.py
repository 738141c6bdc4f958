"""A stream in ten seconds: what its asset's Overview shows. Pure.

In this order: the state in a sentence, a picture of the last hours, the executors, the last
decisions. Dagster's pages show Markdown in place below 1000 characters only, so each piece stays
below that, and says what it leaves out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.markdown import ARROW, INLINE, clock, escaped, fitted, fitting, table
from dagster_sparkscale.names import STREAM_TAG
from dagster_sparkscale.observe.status import Executor
from dagster_sparkscale.quantities import DASH, counted
from dagster_sparkscale.watch.fleet.behind import behind, in_a_cell
from dagster_sparkscale.watch.fleet.rows import Row
from dagster_sparkscale.watch.fleet.verdict import CRASH_LOOPING, lasting, verdict

DECISIONS = 10

# Characters of Markdown; all of them together stay below `INLINE`.
_SENTENCE = 330
_FAILING = 220
_URL = 120
_REASON = 120
_HOST = 100
_WHO = 30

_FROM_TO = re.compile("^[0-9]+( registered)? -> [0-9]+: ")
"""How the reason of a scale decision begins."""

_NOTHING = "nothing to do: "
"""How the outcome of a run begins that found nothing left to do: it does not say of what."""

AUTOSCALER, RECOVERY = "autoscaler", "recovery"
"""The parts of the sensor that decide."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision other than to hold, as people are shown it."""

    at: float
    """Seconds since the epoch."""
    decision: str
    reason: str
    run_key: str
    """The key by which the run is found that carried it out."""


@dataclass(frozen=True, slots=True)
class Operated:
    """A run of an operation that is over."""

    at: float
    """When it ended, seconds since the epoch."""
    stream: str
    operation: str
    by: str
    """The person or schedule that has asked for it, as far as Dagster knows."""
    reason: str
    """Empty: none was given."""
    outcome: str
    """What it came to, in short; empty: it was cut off, or is of an older release."""
    failed: bool
    run_id: str
    run_key: str = ""
    """The key by which the autoscaler has asked for it; empty: somebody else has."""

    @property
    def line(self) -> str:
        """What it came to, in a line."""
        ending = "failed" if self.failed else "done"
        came = f"{ending}: {self.outcome}" if self.failed and self.outcome else self.outcome
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.operation}: {came or ending}{why}"


def came_to(decision: str, reason: str, run: Operated | None) -> str:
    """A decision of the sensor, what came of it, and why, in a line.

    Args:
        run: what carried it out; None: it is not over, or is not known any more.
    """
    if run is None or not run.outcome:
        return f"{decision}: {reason}"
    if run.failed:
        return f"{decision}, failed: {run.outcome}: {reason}"
    if run.outcome.startswith(_NOTHING):
        return f"{decision}, {run.outcome}: {reason}"
    # What came of it says from how many executors to how many, and so does the reason.
    return f"{run.outcome}: {_FROM_TO.sub('', reason)}"


def sentence(row: Row, minimum: int) -> str:
    """The stream in a sentence, which begins with its verdict.

    Args:
        minimum: executors it has at least, as declared.
    """
    shown = verdict(row)
    if row.state != "running":
        # When the driver came says nothing of since when it is unknown.
        if shown == CRASH_LOOPING:
            # It stands while drivers come and go: each restart is told of as an event only.
            return f"{shown}, {row.often}; seen {clock(row.seen_at)}: {row.reason}"
        if row.since is None or shown == "unknown":
            # A stream that was never started says that as its reason, too.
            return row.reason if row.reason.startswith(shown) else f"{shown}: {row.reason}"
        return f"{shown} since {clock(row.since)}: {row.reason}"
    parts = [lasting(row)]
    if shown == CRASH_LOOPING:
        parts.append(row.often)
    if row.registered is not None:
        most = f"to {row.maximum}" if row.maximum is not None else "or more"
        asked = row.requested not in (None, row.registered)
        wanted = f"{row.requested} asked for, " if asked else ""
        few = "executor" if row.registered == 1 else "executors"
        parts.append(f"{row.registered} {few} ({wanted}{minimum} {most} allowed)")
    if row.ratio is not None:
        parts.append(f"R {row.ratio:.2f}")
    if (far := in_a_cell(row)) != DASH and row.stuck_for is None:
        parts.append(f"{far} behind")
    return f"{', '.join(parts)}; {row.decision}: {row.reason}"


def state(row: Row, minimum: int, driver: Driver | None) -> str:
    """The state as Markdown: the sentence, what is wrong, how far behind it is, and where to look
    further."""
    lines = [f"**{fitted(sentence(row, minimum).strip(), _SENTENCE)}**"]
    # What the checks of a stream that does not run say is in the sentence already.
    if row.state == "running":
        wrong = [each for each in row.failing if not _said(each.text, row.reason, driver)][:2]
        lines += [fitted(f"{each.check}: {each.text}", _FAILING // len(wrong)) for each in wrong]
    seen = f"seen {clock(row.seen_at)}"
    # Overview shows the last time that data moved on or the state was another. What is old there
    # would look as if nobody watched. One that was never started has no such time.
    if driver is not None and (row.state != "running" or row.ratio is None):
        seen += ", and as it was since (each later look is below Events)"
    links = [seen]
    if driver is not None:
        if driver.ui_url and driver.state.alive and len(driver.ui_url) <= _URL:
            links.insert(0, f"[Spark UI]({driver.ui_url})")
        links.append(f"driver {driver.epoch}: ")
    links_line = " · ".join(links)
    text = "\n\n".join([*lines, links_line])
    # A path that is cut is none: it has all the room there is.
    where = "" if driver is None else fitted(driver.where, INLINE - len(text))
    # The sentence has the lag.
    far = escaped(behind(row, with_lag=row.stuck_for is not None))
    if far and len(text) + len(where) + len(far) + 2 <= INLINE:
        lines.append(far)
    return "\n\n".join([*lines, links_line + where])


def _said(text: str, reason: str, driver: Driver | None) -> bool:
    """Whether a check says the reason or its beginning, or adds to it where the driver is."""
    where = "" if driver is None else driver.where
    return bool(reason) and (f"{reason}; ".startswith(f"{text}; ") or text == f"{reason}; {where}")


def executors(registered: Sequence[Executor]) -> str:
    """The executors as a table; a line a host where they are many. Empty for none."""
    if not registered:
        return ""
    lines = [f"|{escaped(each.id)} |{_host(each.host)} |{_tasks(each)}|" for each in registered]
    whole = table("executor|host|tasks / cores", lines)
    if len(whole) <= INLINE:
        return whole
    hosts = Counter(each.host for each in registered)
    busy, cores = Counter[str](), Counter[str]()
    for each in registered:
        busy[each.host] += _running(each)
        cores[each.host] += each.cores
    lines = [
        f"|{count}|{_host(host)} |{busy[host]} of {cores[host]}|"
        for host, count in hosts.most_common()
    ]
    return fitting("executors|host|tasks / cores", lines, "hosts")


def happened(
    stream: str, decided: Iterable[Decided], operated: Iterable[Operated], now: float
) -> str:
    """What was done to the stream, the newest first, by whom and why.

    Decisions other than to hold, and what people and schedules have asked for, failures included.
    The head leads to all runs of the stream, and the time to the run, but for a decision that was
    carried out: of those there are many, and each event that is stored would have all of them.
    """
    runs = {each.run_key: each for each in operated if each.run_key}
    lines: list[tuple[float, str, str, str]] = []
    for each in decided:
        who = RECOVERY if each.decision.startswith("restart") else AUTOSCALER
        run = runs.get(each.run_key)
        link = ""
        if run is None:
            link = _runs("dagster/run_key", each.run_key)
        elif run.failed:
            link = f"/runs/{run.run_id}"
        lines.append((each.at, who, came_to(each.decision, each.reason, run), link))
    for run in operated:
        if not run.run_key:
            lines.append((run.at, run.by, run.line, f"/runs/{run.run_id}"))
    latest = sorted(lines, key=lambda line: -line[0])[:DECISIONS]
    return fitting(
        f"[runs, UTC]({_runs(STREAM_TAG, stream)})|who, what and why",
        [
            f"|{f'[{clock(at, now)}]({link})' if link else clock(at, now)}|{fitted(who, _WHO)}: "
            f"{fitted(what.replace('->', ARROW), _REASON)} |"
            for at, who, what, link in latest
        ],
        f"of the last {len(latest)}",
    )


def _runs(tag: str, value: str) -> str:
    """The address of Dagster's list of runs that have a tag."""
    return f"/runs?q[0]=tag:{tag}={quote(value, safe=':')}"


def _host(name: str) -> str:
    return fitted(name, _HOST)


def _tasks(executor: Executor) -> str:
    held = f", {counted(executor.receivers, 'receiver')}" if executor.receivers else ""
    return f"{_running(executor)} of {executor.cores}{held}"


def _running(executor: Executor) -> int:
    """Tasks that run on it, no more than its cores.

    Spark counts a task until its result is read, after another one has its core; and it keeps the
    number that it last wrote until the executor's next task or heartbeat (AppStatusListener).
    """
    return min(executor.active_tasks, executor.cores)
