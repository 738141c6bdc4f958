"""A backtest as a picture: curves one above the other, on one axis of time."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from math import nan
from pathlib import Path
from typing import Any

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from dagster_sparkscale.advice.text import MOST_CURVES, believed, conclusion
from dagster_sparkscale.advice.text import drawn as drawn_of
from dagster_sparkscale.backtest.measures import LATE
from dagster_sparkscale.backtest.simulate import Run
from dagster_sparkscale.backtest.study import Study


def draw(stream: str, study: Study, path: Path) -> None:
    """Draw the load, the executors and the delay, and write them to a file.

    Between parts of the load, where nothing was measured, nothing is drawn. Minutes that say
    little, as a limit kept records back or no more executors were to be had, are shaded.

    Args:
        path: of a PNG, or of what else matplotlib writes, by its ending.

    Raises:
        OSError: the file can't be written.
        ValueError: matplotlib writes no such file.
    """
    figure = Figure(figsize=(12, 9), layout="constrained")
    load, executors, delay = axes = figure.subplots(3, 1, sharex=True)
    figure.suptitle(conclusion(stream, study), fontsize=10, wrap=True)
    load.plot(*_joined(_load(study)), color="black", linewidth=0.8)
    load.set_ylabel("input (records/s)")
    for number, outcome in enumerate(drawn_of(study)):
        look: Any = {"color": f"C{number}", "linewidth": 1.0}
        runs = list(zip(study.parts, outcome.runs, strict=True))
        drawn = _joined(_executors(part.began_at, run) for part, run in runs)
        executors.plot(*drawn, drawstyle="steps-post", label=outcome.name, **look)
        delay.plot(*_joined(_delays(part.began_at, run) for part, run in runs), **look)
    if study.ran is not None:
        recorded: Any = {"color": "grey", "alpha": 0.6}
        drawn = _joined(_recorded(study, "registered"))
        executors.plot(*drawn, drawstyle="steps-post", label="recorded", **recorded)
        delay.plot(*_joined(_recorded(study, "delay")), linewidth=1.0, **recorded)
    executors.set_ylabel("executors")
    # Above, where it hides no curve.
    executors.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), ncols=MOST_CURVES + 1)
    delay.set_ylabel("delay of a batch (s)")
    late = LATE * study.application.interval
    delay.axhline(late, color="red", linewidth=0.8, linestyle="--", label=f"late: above {late:g} s")
    delay.legend(fontsize=7, loc="upper left")
    for each in axes:
        each.set_ylim(bottom=0)
        for at in _doubtful(study):
            begin, end = _times([at - 60, at])
            each.axvspan(begin, end, color="orange", alpha=0.15, linewidth=0)
    locator = AutoDateLocator()
    delay.xaxis.set_major_locator(locator)
    delay.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    delay.set_xlabel("UTC; shaded: a limit, or the maximum of executors, hides what came")
    figure.text(0.01, -0.02, "\n".join(believed(study)), fontsize=7, va="top")
    figure.savefig(path, dpi=110, bbox_inches="tight")


Points = tuple[Sequence[float], Sequence[float]]
"""Seconds since the epoch, and values."""


def _load(study: Study) -> Iterator[Points]:
    for part in study.parts:
        load = part.load
        yield [part.began_at + load.step * n for n in range(len(load.rates))], load.rates


def _executors(began: float, run: Run) -> Points:
    changes = [*run.changes, (run.seconds, run.changes[-1][1])]
    return [began + at for at, _ in changes], [number for _, number in changes]


def _delays(began: float, run: Run) -> Points:
    return [began + each.ended for each in run.batches], [each.delay for each in run.batches]


def _recorded(study: Study, field: str) -> Iterator[Points]:
    for part in study.parts:
        known = [(each.at, getattr(each, field)) for each in part.minutes]
        yield [at for at, _ in known], [nan if value is None else value for _, value in known]


def _doubtful(study: Study) -> Iterator[int]:
    for part in study.parts:
        yield from sorted(part.doubtful)


def _joined(parts: Iterable[Points]) -> tuple[list[datetime], list[float]]:
    """The points of all parts, with a gap after each."""
    at: list[float] = []
    values: list[float] = []
    for times, numbers in parts:
        at += [*times, times[-1] if times else 0.0]
        values += [*numbers, nan]
    return _times(at), values


def _times(seconds: Sequence[float]) -> list[datetime]:
    return [datetime.fromtimestamp(each, UTC) for each in seconds]
