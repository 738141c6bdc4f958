"""All streams of a cluster as one table, the worst first. Pure.

A row says what the last look at a stream brought, and when that was. What was not measured is None
in a row, null in JSON, and a dash in a table; never a zero.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.health import NOT_STOPPED, Finding, Health
from dagster_sparkscale.watch.sighting import Sighting
from dagster_sparkscale.watch.words import escaped, fitted

if TYPE_CHECKING:  # it remembers, and what is remembered has to do with rows
    from dagster_sparkscale.watch.orphans import Orphan

ORPHAN = "orphan"
"""The state of a stream that runs and that nobody declares."""
NOT_ANSWERING = "not answering"
RESTARTS_WITHIN = 86400.0
"""Seconds before the look in which restarts count."""
STATES = ("running", "starting", "failed", "unknown", ORPHAN, "stopped", "not started")
GIVEN_UP = "given up"
"""What people call a failed stream that nothing but a person starts again."""
CRASH_LOOPING = "crash-looping"
CRASH_LOOP = 2
"""Restarts within `CRASH_LOOP_WITHIN` that make a crash loop."""
CRASH_LOOP_WITHIN = 3600.0
SETTLED = 300.0
"""Seconds that a driver runs until it counts as out of a crash loop."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A health check that has failed."""

    check: str
    text: str
    mark: str
    """Tells one failure from the next, where the check tells them apart."""
    urgent: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One stream of the fleet."""

    stream: str
    asset: tuple[str, ...]
    """Its asset's key."""
    state: str
    """One of `STATES`."""
    seen_at: float
    """When it was looked at, seconds since the epoch."""
    since: float | None = None
    """When its driver was started; of one that failed, when that ended; of a stopped one, since
    when it has both ended and been asked to. None: not known."""
    epoch: int | None = None
    """None: no driver is known."""
    ratio: float | None = None
    lag: float | None = None
    """Seconds behind the tip of its source."""
    registered: int | None = None
    requested: int | None = None
    maximum: int | None = None
    """Executors it may have; None: whatever the cluster has, or not known."""
    decision: str = ""
    """In two or three words; empty: nobody decides."""
    reason: str = ""
    acts: bool = False
    """Whether a run is wanted."""
    gave_up: bool = False
    """It has failed, and nothing but a person starts it again."""
    restarts: int | None = None
    """By recovery, within `RESTARTS_WITHIN`."""
    looping: bool = False
    """Whether it fails again and again: that it runs at the moment says little."""
    waits: str | None = None
    """What it waits for: an operation in flight, executors, a person."""
    failing: tuple[Failing, ...] = ()
    """The urgent ones first."""
    untold: tuple[str, ...] = ()
    """The health checks that can't be told now: what they said before stands."""

    @property
    def note(self) -> str:
        """What is the matter, in a sentence; empty where nothing is."""
        if self.state in ("failed", ORPHAN):
            return self.reason
        if self.looping:
            return f"{self.restarts} restarts within 24 h; {self.waits or self.reason}"
        if self.failing and self.state != "stopped":
            return self.failing[0].text
        return self.waits or (self.reason if self.acts or self.state == "unknown" else "")


def row(
    stream: Stream,
    assessment: Assessment,
    sighting: Sighting,
    *,
    now: float,
    operation: str | None = None,
) -> Row:
    """The row of a declared stream.

    Args:
        now: when it was looked at, seconds since the epoch.
        operation: that is in flight on the stream, for people.
    """
    seen, driver, decision = assessment.seen, sighting.driver, assessment.decision
    return Row(
        stream=stream.name,
        asset=(*stream.key_prefix, stream.name),
        state=assessment.state,
        seen_at=now,
        since=_since(driver),
        epoch=assessment.epoch,
        ratio=seen.ratio if seen else None,
        lag=seen.lag if seen else None,
        registered=seen.registered if seen else None,
        requested=seen.requested if seen else None,
        maximum=stream.bounds.maximum,
        decision=str(decision),
        reason=decision.reason,
        acts=assessment.acts,
        gave_up=isinstance(decision, Hold) and decision.gave_up,
        restarts=_restarts(driver, now),
        looping=loops(driver, now),
        waits=_waits(assessment, driver, operation),
        failing=_failing(assessment.health.items()),
        untold=tuple(c.value for c, found in assessment.health.items() if found.passed is None),
    )


def orphan_row(orphan: "Orphan", *, now: float) -> Row:
    """The row of a stream that nobody declares."""
    driver = orphan.driver
    return Row(
        stream=driver.stream,
        asset=orphan.asset,
        state=ORPHAN,
        seen_at=now,
        since=_since(driver) if driver.epoch else None,
        epoch=driver.epoch or None,  # 0: its record can't be read
        reason=str(orphan).removeprefix(f"{driver.stream}: "),
        restarts=_restarts(driver, now),
    )


def loops(driver: Driver | None, now: float) -> bool:
    """Whether a driver is one of a crash loop."""
    if driver is None or driver.restarted_at is None or driver.state not in _LOOPING:
        return False
    restarts = sum(1 for at in driver.restarted_at if 0 <= now - at < CRASH_LOOP_WITHIN)
    settled = driver.state.alive and now - driver.submitted_at >= SETTLED
    return restarts >= CRASH_LOOP and not settled


_LOOPING = (DriverState.FAILED, DriverState.STARTING, DriverState.RUNNING)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """In an order that does not depend on the one they came in."""
    return sorted(rows, key=_place)


def in_trouble(row: Row) -> bool:
    """Whether somebody should look at the stream. One that was stopped, or never started, is as
    somebody wants it."""
    return _rank(row) < _RANK_OF_FINE


def sentence(rows: Sequence[Row], named: int = 3) -> str:
    """The fleet in a sentence: how many are in which state, and which are the worst."""
    counts = Counter(map(called, rows))
    states = ", ".join(f"{counts[state]} {state}" for state in _SAID if counts[state])
    text = f"{len(rows)} stream{'s' * (len(rows) != 1)}: {states}"
    bad = [row for row in worst_first(rows) if in_trouble(row)]
    if not bad:
        return f"{text}. Nothing is wrong."
    worst = "; ".join(f"{row.stream}: {shortened(row.note, SAID)}" for row in bad[:named])
    more = f"; and {len(bad) - named} more" if len(bad) > named else ""
    return f"{text}. Worst: {worst}{more}."


def as_dicts(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows for JSON, with a null for what is not known."""
    return [asdict(row) for row in rows]


_COLUMNS = "|Stream|State|R|Lag|Executors|Decision|Restarts, 24\u00a0h|"
_RULES = "|---|---|--:|--:|---|---|--:|"
HEAD = f"{_COLUMNS}\n{_RULES}\n"
HEAD_OF_ALL = f"{_COLUMNS}What is up|\n{_RULES}---|\n"
NOTE, SAID = 90, 200
"""Characters of a note in a table, and in a sentence or a short list; its stream's page has the
whole."""

NAME = 150
"""Characters of a stream's name at most, as Markdown."""
AND_MORE = 20
"""Characters to say how many there is no room for."""


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a table of GitHub's Markdown, in the order given; linked to their assets."""
    return HEAD_OF_ALL + "".join(f"{_line(row)}{_note(row)}|\n" for row in rows)


def in_pieces(rows: Sequence[Row], size: int, most: int) -> list[str]:
    """The first of the rows as at most `most` tables, each below `size` characters, which must do
    for two rows or so: one has at most 800. Without notes, for which a page has no room."""
    pieces: list[str] = []
    for row in rows:
        line = f"{_line(row, _UNBROKEN)}\n"
        if not pieces or len(pieces[-1]) + len(line) >= size:
            if len(pieces) == most:
                break
            pieces.append(HEAD)
        pieces[-1] += line
    return pieces


def notes(rows: Iterable[Row], size: int) -> str:
    """What is up with the first of the rows, as a list below `size` characters; empty for
    nothing."""
    told = [row for row in rows if row.note]
    lines = [f"- {_linked(row)}: {_note(row, SAID)}\n" for row in told]
    if sum(map(len, lines)) >= size - AND_MORE:
        lines = [f"- {_linked(row)}: {_note(row)}\n" for row in told]
    text = ""
    for shown, line in enumerate(lines):
        if len(text) + len(line) + AND_MORE >= size:
            return f"{text}\nand {len(lines) - shown} more"
        text += line
    return text


def asset_path(row: Row) -> str:
    """Where Dagster's UI shows the stream."""
    return "/assets/" + "/".join(quote(part, safe="") for part in row.asset)


def shortened(text: str, most: int) -> str:
    """Text in one line of at most so many characters, which can be stored: half a character, as the
    name of a file may have, becomes a question mark."""
    text = " ".join(text.split()).encode(errors="replace").decode()
    return text if len(text) <= most else f"{text[: most - 3]}..."


def span(seconds: float) -> str:
    """A time as people say it: `4 s`, `3 min`, `5 h`, `2 d`."""
    for unit, length, most in (("s", 1, 100), ("min", 60, 6000), ("h", 3600, 360000)):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def executors(row: Row) -> str:
    """`3 of 8`, or `3 -> 5 of 8` while some are to come or to leave."""
    if row.registered is None and row.requested is None:
        return _DASH
    have = "?" if row.registered is None else str(row.registered)
    if row.requested not in (None, row.registered):
        have += f" -> {row.requested}"
    return have if row.maximum is None else f"{have} of {row.maximum}"


def called(row: Row) -> str:
    """The state as people say it, where it is another than it would seem."""
    if row.gave_up:
        return GIVEN_UP
    running = (each for each in row.failing if each.check == Health.RUNNING.value)
    if row.state == "running" and (failing := next(running, None)) is not None:
        return NOT_STOPPED if failing.mark == NOT_STOPPED else NOT_ANSWERING
    return CRASH_LOOPING if row.looping else row.state


def state(row: Row) -> str:
    """The state as people say it, and how long it has lasted where it is not the usual one."""
    if row.since is None or row.looping or row.state in ("running", ORPHAN, "unknown"):
        return called(row)
    return f"{called(row)} for {span(max(0.0, row.seen_at - row.since))}"


_DASH = "-"
_SAID = (GIVEN_UP, CRASH_LOOPING, NOT_ANSWERING, NOT_STOPPED, *STATES)
_UNBROKEN = "\u00a0"
_LONGEST_PATH = 300
"""Characters of a link; a row must fit into a small table."""


def _line(row: Row, space: str = " ") -> str:
    """A line of a table, but for its note.

    Args:
        space: in what is short; on a page a kind at which no line ends, which is six bytes.
    """
    word, since, ago = state(row).partition(" for ")
    cells = [
        _linked(row),
        f"{word}{since}{ago.replace(' ', space)}",
        _DASH if row.ratio is None else f"{row.ratio:.2f}",
        _DASH if row.lag is None else span(row.lag).replace(" ", space),
        escaped(executors(row)).replace(" ", space),
        escaped(row.decision),
        _DASH if row.restarts is None else str(row.restarts),
    ]
    return f"|{'|'.join(cells)}|"


def _linked(row: Row) -> str:
    name, path = fitted(row.stream, NAME), asset_path(row)
    return f"[{name}]({path})" if len(path) <= _LONGEST_PATH else name


def _note(row: Row, most: int = NOTE) -> str:
    return fitted(shortened(row.note, most), 3 * most)


_RANK_OF_FINE = 4


def _rank(row: Row) -> int:
    if row.state == "failed" or row.looping:
        return 0
    if row.state == "unknown" or (row.state == "running" and any(f.urgent for f in row.failing)):
        return 1
    if row.state == ORPHAN:
        return 2
    if row.failing and row.state in ("running", "starting"):
        return 3
    return _RANK_OF_FINE + ("starting", "running", "stopped", "not started").index(row.state)


def _place(row: Row) -> tuple[Any, ...]:
    unmeasured = float("-inf")
    return (
        _rank(row),
        not row.gave_up,
        -len(row.failing),
        -(unmeasured if row.ratio is None else row.ratio),
        -(unmeasured if row.lag is None else row.lag),
        row.stream,
    )


def _since(driver: Driver | None) -> float | None:
    if driver is None:
        return None
    if driver.state.alive:
        return driver.submitted_at
    if driver.state is not DriverState.STOPPED or driver.asked_to_stop_at is None:
        return driver.ended_at
    # One that had failed before is stopped since somebody said so.
    return max(driver.asked_to_stop_at, driver.ended_at or driver.asked_to_stop_at)


def _restarts(driver: Driver | None, now: float) -> int | None:
    if driver is None or driver.restarted_at is None:
        return None
    return sum(1 for at in driver.restarted_at if now - at < RESTARTS_WITHIN)


def _waits(assessment: Assessment, driver: Driver | None, operation: str | None) -> str | None:
    if driver is not None and driver.hold is not None:
        return f"held by {driver.hold.by}, in the middle of: {driver.hold.step}"
    if assessment.waits is not None:
        return assessment.waits
    if operation is not None:
        return f"{operation} is in progress"
    if assessment.acts:
        return f"a run of {assessment.decision.operation} is asked for"
    seen = assessment.seen
    if seen is None or seen.requested is None or seen.staying is None:
        return None
    missing = seen.requested - seen.staying
    return f"{missing} executor{'s' * (missing != 1)} to come" if missing > 0 else None


def _failing(health: Iterable[tuple[Health, Finding]]) -> tuple[Failing, ...]:
    failed = [
        Failing(check.value, finding.text, finding.mark, finding.urgent)
        for check, finding in health
        if finding.passed is False
    ]
    return tuple(sorted(failed, key=lambda each: not each.urgent))
