"""A stream in ten seconds: what its asset's Overview shows. Pure.

In this order: the state in a sentence, a picture of the last hours, the executors, the last
decisions. Dagster's pages show Markdown in place below 1000 characters only, so each piece stays
below that, and says what it leaves out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.markdown import ARROW, INLINE, clock, escaped, fitted, fitting, table
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
            restarts = "several" if row.restarts is None else str(row.restarts)
            often = f"{shown}, {restarts} restarts within 24 h"
            return f"{often}; at {clock(row.seen_at)}: {row.reason}"
        if row.since is None or shown == "unknown":
            # A stream that was never started says that as its reason, too.
            return row.reason if row.reason.startswith(shown) else f"{shown}: {row.reason}"
        return f"{shown} since {clock(row.since)}: {row.reason}"
    parts = [lasting(row)]
    if row.registered is not None:
        most = f"to {row.maximum}" if row.maximum is not None else "or more"
        parts.append(f"{row.registered} of {minimum} {most} executors")
        if row.requested not in (None, row.registered):
            parts[-1] += f" ({row.requested} asked for)"
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
    whole = table("executor|host|tasks of cores", lines)
    if len(whole) <= INLINE:
        return whole
    hosts = Counter(each.host for each in registered)
    busy, cores = Counter[str](), Counter[str]()
    for each in registered:
        busy[each.host] += each.active_tasks
        cores[each.host] += each.cores
    lines = [
        f"|{count}|{_host(host)} |{busy[host]} of {cores[host]}|"
        for host, count in hosts.most_common()
    ]
    return fitting("executors|host|tasks of cores", lines, "hosts")


def happened(decided: Iterable[Decided], operated: Iterable[Operated], now: float) -> str:
    """What was done to the stream, the newest first, by whom and why, with the runs.

    Decisions other than to hold, and what people and schedules have asked for, failures included.
    """
    runs = {each.run_key: each for each in operated if each.run_key}
    lines: list[tuple[float, str, str, str]] = []
    for each in decided:
        link = f"/runs?q[0]=tag:dagster/run_key={quote(each.run_key, safe=':')}"
        who = RECOVERY if each.decision.startswith("restart") else AUTOSCALER
        run, done = runs.get(each.run_key), each.decision
        if run is not None and run.outcome:
            # What came of it says what it was, unless it failed.
            done = f"{done}, failed: {run.outcome}" if run.failed else run.outcome
        lines.append((each.at, who, f"{done}: {each.reason}", link))
    for run in operated:
        if not run.run_key:
            lines.append((run.at, run.by, run.line, f"/runs/{run.run_id}"))
    latest = sorted(lines, key=lambda line: -line[0])[:DECISIONS]
    return fitting(
        "when\u00a0(UTC)|who|what and why|",
        [
            f"|{clock(at, now)}|{fitted(who, _WHO)} "
            f"|{fitted(what.replace('->', ARROW), _REASON)} |[run]({link})|"
            for at, who, what, link in latest
        ],
        f"of the last {len(latest)}",
    )


def _host(name: str) -> str:
    return fitted(name, _HOST)


def _tasks(executor: Executor) -> str:
    held = f", {counted(executor.receivers, 'receiver')}" if executor.receivers else ""
    return f"{executor.active_tasks} of {executor.cores}{held}"
