"""The charts of a stream's page: which there are, and what each draws. Pure.

All charts of a page have the same moments, so that they stand one below the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dagster_sparkscale.declare.decisions import target_of
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.quantities import number

Look = Literal["line", "step", "under", "dashed", "points"]
"""How a curve is drawn; `under`: as a wide step, which another one may be on."""
Rows = Sequence[tuple[int, Minute | None]]
"""Moments, seconds since the epoch, and what was measured at each; None: nothing."""

FEW = 60
"""Lines of the table that says the same as a chart."""


@dataclass(frozen=True, slots=True)
class Series:
    """One curve."""

    label: str
    look: Look
    color: int
    """The place of its color among those of the page."""
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart."""

    key: str
    title: str
    series: Sequence[Series]
    absent: str
    """What to say where nothing of it was measured; empty: something was."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What charts draw beside what was measured: numbers that hold for the whole chart."""

    thresholds: Sequence[tuple[str, float]] = ()
    """Thresholds of R, by what happens there."""
    minimum: int | None = None
    """Executors at least, now."""
    maximum: int | None = None
    max_lag: float | None = None
    """Seconds."""


def charts(rows: Rows, lines: Lines, unknown: Mapping[str, str]) -> list[Chart]:
    """The charts of these minutes. What was measured in none of them has no curve.

    Args:
        unknown: why something can't be known, by the key of its chart.
    """
    beside = _beside(lines, len(rows))
    found = [
        _chart(key, title, unknown, *_curves(rows, curves), lines=beside.get(key, ()))
        for key, (title, *curves) in _CHARTS.items()
    ]
    # Many streams have neither a source that counts nor receivers: nothing is missing there.
    return [each for each in found if each.key in _ABSENT or not each.absent]


_Curve = tuple[str, Look, int, Callable[[Minute], float | None]]
"""A label, how the curve is drawn, the place of its color, and what it is of."""

_CHARTS: Mapping[str, tuple[Any, ...]] = {
    "ratio": (
        "R, processing time / batch interval",
        ("R", "line", 0, lambda each: each.ratio),
        ("age of the batch in progress / interval", "line", 3, lambda each: each.overdue),
    ),
    "executors": (
        "Executors",
        ("requested", "under", 3, lambda each: each.requested),
        ("registered", "step", 1, lambda each: each.registered),
        ("decided", "points", 0, lambda each: target_of(each.decision)),
    ),
    "lag": (
        "How far behind, in seconds",
        ("lag", "line", 2, lambda each: each.lag),
        ("delay of a batch's oldest record", "line", 3, lambda each: each.delay),
    ),
    "rates": (
        "Records per second",
        ("input", "line", 1, lambda each: each.input_rate),
        ("processed", "line", 2, lambda each: each.processed_rate),
        ("fullest batch", "line", 3, lambda each: each.peak_rate),
    ),
    "limits": (
        "Limit, in records per second",
        ("limit", "step", 0, lambda each: each.limit),
        ("reached", "points", 3, lambda each: each.limit if each.throttled else None),
    ),
    "backlog": (
        "Waiting",
        ("records in the source", "line", 1, lambda each: each.backlog),
        ("batches due", "step", 0, lambda each: each.pending),
    ),
    "receivers": (
        "Receivers",
        ("that ran", "step", 1, lambda each: each.receivers),
    ),
}
"""Each chart by key: title and curves."""

_ABSENT = {
    "ratio": "no batch was completed, or no minute is stored",
    "executors": "no agent has answered, or no minute is stored",
    "lag": "the source does not tell how far behind a query is, or no minute is stored",
    "rates": "no batch was completed, or no minute is stored",
    "limits": "a query had no limit that is known: it may take all that comes",
}
"""Why nothing was measured, of the charts that are there all the same."""


def _beside(lines: Lines, moments: int) -> dict[str, list[Series]]:
    """The lines of each chart, by its key."""
    levels = {
        "ratio": lines.thresholds,
        "executors": (("minimum, now", lines.minimum), ("maximum, now", lines.maximum)),
        "lag": (("max_lag", lines.max_lag),),
    }
    return {
        key: [Series(label, "dashed", 4, [at] * moments) for label, at in of if at is not None]
        for key, of in levels.items()
    }


def _curves(rows: Rows, curves: Iterable[_Curve]) -> Iterator[Series]:
    for label, look, color, of in curves:
        values = [None if each is None else of(each) for _, each in rows]
        if any(value is not None for value in values):
            yield Series(label, look, color, values)


def _chart(
    key: str,
    title: str,
    unknown: Mapping[str, str],
    *measured: Series,
    lines: Sequence[Series] = (),
) -> Chart:
    why = unknown.get(key) or _ABSENT.get(key, "")
    absent = "" if measured else f"Not measured in this time: {why}."
    return Chart(key, title, (*measured, *lines) if measured else (), absent)


def summary(chart: Chart) -> str:
    """What a chart shows, in a sentence for who can't see it."""
    if chart.absent:
        return chart.absent
    said = []
    for each in chart.series:
        known = [value for value in each.values if value is not None]
        if not known:
            continue  # a line without a moment
        last, least, most = (number(v) for v in (known[-1], min(known), max(known)))
        said.append(
            f"{each.label} {last}"
            if least == most
            else f"{each.label} {last} at last, from {least} to {most}"
        )
    return f"{chart.title}: {'; '.join(said)}."


def table(
    chart: Chart, times: Sequence[float], few: int = FEW
) -> tuple[int, list[tuple[float, list[float | None]]]]:
    """A chart as numbers, the newest first: at most `few` lines.

    Returns:
        How many moments one line is the first of, and the lines: when each was, seconds since the
        epoch, and a value for each series.
    """
    step = max(1, -(-len(times) // few))
    places = range(0, len(times), step)
    lines = [
        (times[at], [_extreme(each.values[at : at + step]) for each in chart.series])
        for at in places
    ]
    return step, lines[::-1]


def _extreme(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def as_json(times: Sequence[float], drawn: Sequence[Chart]) -> dict[str, Any]:
    """The charts as the script of the page draws them."""
    return {
        "times": list(times),
        "charts": [
            {
                "key": chart.key,
                "title": chart.title,
                "series": [
                    {
                        "label": each.label,
                        "look": each.look,
                        "color": each.color,
                        "values": list(each.values),
                    }
                    for each in chart.series
                ],
            }
            for chart in drawn
            if not chart.absent
        ],
    }
