"""What the page of a stream shows: its present state and the last hours or weeks, as data. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.capability import Capabilities
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.durations import in_units, span
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.observe.minutes import Minute, minute
from dagster_sparkscale.serve.page.charts import Chart, Lines, as_json, charts
from dagster_sparkscale.serve.page.operated import (
    RESCALE,
    Operated,
    Operations,
    Took,
    took,
)
from dagster_sparkscale.serve.page.thinned import (
    GAP,
    TICK,
    Point,
    points,
    thinned,
    width,
    with_gaps,
)
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.fleet.rows import Row
from dagster_sparkscale.watch.page.overview import sentence

RANGES = {"1h": 3600, "6h": 21600, "24h": 86400, "7d": 7 * 86400, "28d": 28 * 86400}
"""Seconds that a page shows, by how people choose it."""
DEFAULT = "6h"
"""What a page shows if nobody chose a range, of a stream with minutes of so long."""
LISTED = 20
"""Operations in a list, the newest first."""
NAMED = 5
"""Gaps that are told of in words, the newest ones."""
MARKED = 200
"""Operations that are marked in the charts, the newest first."""


@dataclass(frozen=True, slots=True)
class Live:
    """A stream as a look has found it."""

    row: Row
    said: str
    """The stream in a sentence."""
    minute: Minute
    lines: Lines
    sections: Mapping[str, str] = field(default_factory=dict)
    """Markdown by title, of receivers, state and what else capabilities show."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why something is not known, by chart, or by what it is."""


def live(assessment: Assessment, row: Row, capabilities: Capabilities) -> Live:
    """What a look says for the page of a stream."""
    situation, evaluation = assessment.situation, assessment.evaluation
    bounds, policy = situation.bounds, situation.stream.autoscale
    unknown: dict[str, str] = {}
    if evaluation is None:
        unknown["now"] = f"what its driver measures: {row.reason}"
    else:
        if evaluation.ratio is None and evaluation.silence is not None:
            unknown["ratio"] = evaluation.silence
        if evaluation.lag is None:
            unknown["lag"] = evaluation.lag_unknown or "its sources do not tell it"
        if evaluation.registered is None:
            unknown["executors"] = "its driver has not told its executors yet"
    if row.untold:
        unknown["health"] = f"these checks can't be told now: {', '.join(row.untold)}"
    if situation.steering.lines:
        unknown["policy"] = (
            "what the policy would have had while it is held by hand is kept in words only"
        )
    lines = Lines(thresholds(policy))
    if policy is not None:
        lines = replace(
            lines, minimum=bounds.minimum, maximum=bounds.maximum, max_lag=policy.max_lag
        )
    return Live(
        row,
        sentence(row, bounds.minimum),
        minute(situation.now, assessment.state, assessment.epoch, evaluation),
        lines,
        {title: text for title, text in capabilities.sections(situation).items() if text},
        unknown,
    )


def thresholds(policy: AutoscalePolicy | None) -> Sequence[tuple[str, float]]:
    """The values of R at which something happens, by what does."""
    if isinstance(policy, RatioPolicy):
        return (
            ("more executors from", policy.scale_up_ratio),
            ("fewer executors up to", policy.scale_down_ratio),
        )
    return (("batches take longer than they have from", 1.0),)


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment at which something was done to the stream, or another driver came."""

    at: float
    """Seconds since the epoch."""
    kind: str
    """`rescale`, `person`, `driver` or `other`."""
    text: str


@dataclass(frozen=True, slots=True)
class StreamPage:
    """A stream's page."""

    cluster: str
    stream: str
    now: float
    """Seconds since the epoch."""
    shown: str
    """One of `RANGES`, or another time, as people say it."""
    since: float
    live: Live
    times: Sequence[int]
    """The moments of all charts, seconds since the epoch."""
    charts: Sequence[Chart]
    marks: Sequence[Mark]
    rescales: Sequence[Operated]
    took: Took
    """How long all rescales of this time took, also those that are not listed."""
    others: Sequence[Operated]
    unknown: Sequence[str]
    notes: Sequence[str]
    first: float | None = None
    """When its first minute was of this time, seconds since the epoch; None: not known, as what was
    before is not read."""

    def as_json(self) -> dict[str, Any]:
        """What the script of the page draws."""
        return {
            **as_json(self.times, self.charts),
            "since": self.since,
            "until": self.now,
            "marks": [{"at": each.at, "kind": each.kind, "text": each.text} for each in self.marks],
        }


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of a stream."""

    points: Sequence[Point] = ()
    operations: Operations = field(default_factory=Operations)
    whole_since: float | None = None
    """Since when all is here, seconds since the epoch; None: nothing could be read."""
    fault: str = ""
    """Why nothing could be read, in words."""


def stream_page(
    cluster: str,
    live: Live,
    past: Stored,
    *,
    now: float,
    since: float,
    shown: str,
    pending: Sequence[Minute] = (),
) -> StreamPage:
    """The page of a stream.

    Args:
        past: what is stored; its points may be thinned already.
        now: seconds since the epoch.
        since: the first moment that is shown, seconds since the epoch.
        shown: the time from then on, for people.
        pending: minutes that are measured and not stored yet.
    """
    wide = width(now - since)
    newest = [each for each in (*pending, live.minute) if since <= each.at <= now]
    kept = [each for each in past.points if since <= each.last and each.first <= now]
    found = thinned([*kept, *points(newest)], wide)
    rows = with_gaps(found)
    unknown = dict(live.unknown)
    notes = [f"All times are in UTC. Shown: from {clock(since)} to {clock(now)}."]
    if wide > TICK:
        notes.append(
            f"Each point is the worst of {in_units(wide)}: the highest R, lag, input and requested "
            "executors, the fewest registered executors, the lowest rate of processing and limit. "
            f"A gap that is shorter than {in_units(wide)} may not be seen."
        )
    if gaps := _gaps(found):
        named = [f"from {clock(a)} to {clock(b)} ({span(b - a)})" for a, b in gaps[-NAMED:]]
        more = f", and {len(gaps) - NAMED} times before" if len(gaps) > NAMED else ""
        notes.append(f"Nothing was measured {', '.join(named)}{more}.")
    if past.fault:
        unknown["history"] = f"what was before: Dagster's event log can't be read: {past.fault}"
    elif past.whole_since is not None and past.whole_since > since:
        unknown["history"] = (
            f"what was before {clock(past.whole_since)}: the event log was not read so far back in "
            "time; the page reads on"
        )
    operations = past.operations.newest_first(since)
    rescales = [each for each in operations if each.operation == RESCALE]
    others = [each for each in operations if each.operation != RESCALE]
    return StreamPage(
        *(cluster, live.row.stream, now, shown, since, live, [at for at, _ in rows]),
        charts=charts(rows, live.lines, unknown),
        marks=_marks(operations, found),
        rescales=rescales[:LISTED],
        took=took(operations),
        others=others[:LISTED],
        unknown=[f"{_TITLES.get(key, '')}{text}" for key, text in unknown.items()],
        notes=notes,
        first=found[0].first if found and "history" not in unknown else None,
    )


def shortest(page: StreamPage) -> str:
    """The shortest of `RANGES` that has all minutes of a page."""
    if page.first is None:
        return page.shown
    return next(name for name, seconds in RANGES.items() if page.now - seconds <= page.first)


def _gaps(found: Sequence[Point]) -> list[tuple[int, int]]:
    """From and until when nothing was measured, seconds since the epoch."""
    return [
        (one.last, other.first) for one, other in pairwise(found) if other.first - one.last > GAP
    ]


_TITLES = {"ratio": "R now: ", "lag": "how far it is behind now: ", "executors": "executors now: "}


def _marks(operations: Sequence[Operated], found: Sequence[Point]) -> list[Mark]:
    marks = [Mark(each.at, _kind(each), in_words(each)) for each in operations[:MARKED]]
    epoch: int | None = None
    for each in found:
        another = each.worst.epoch
        if epoch is not None and another is not None and another != epoch:
            marks.append(Mark(each.first, "driver", f"driver {epoch} -> {another}"))
        epoch = epoch if another is None else another
    return sorted(marks, key=lambda mark: mark.at)


def _kind(each: Operated) -> str:
    if each.by_a_person:
        return "person"
    return RESCALE if each.operation == RESCALE else "other"


def in_words(each: Operated) -> str:
    """An operation, what it came to and who has asked for it, in a line."""
    text = each.operation
    if each.before is not None or each.asked is not None:
        text += f" {_or_unknown(each.before)} -> {_or_unknown(each.asked)}"
    text += f": {each.ending}"
    if each.seconds is not None:
        text += f" after {span(each.seconds)}"
    return f"{text}, by {each.by}" if each.by else text


def _or_unknown(value: int | None) -> str:
    return "?" if value is None else str(value)
