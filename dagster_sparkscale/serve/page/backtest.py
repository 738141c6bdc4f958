"""A backtest as one file, like the report of a stream: what was simulated, as charts. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dagster_sparkscale.advice import text
from dagster_sparkscale.backtest.measures import LATE
from dagster_sparkscale.backtest.reconstruct import Stretch
from dagster_sparkscale.backtest.simulate import Run
from dagster_sparkscale.backtest.study import Study
from dagster_sparkscale.durations import in_units
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.serve.page import frame, stream_html
from dagster_sparkscale.serve.page.charts import Chart, Series, as_json
from dagster_sparkscale.serve.page.elements import Html, el
from dagster_sparkscale.serve.page.elements import table as html_table
from dagster_sparkscale.serve.page.thinned import width

RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The worst of some seconds of a part of the load."""

    at: float
    """When it begins, seconds since the epoch."""
    load: float
    executors: Mapping[str, float]
    """Executors by policy, the most."""
    delays: Mapping[str, float]
    """Seconds by policy, the longest; a policy that has done no batch then has none."""


@dataclass
class Drawn:
    """The charts of a backtest."""

    times: list[float] = field(default_factory=list)
    """Seconds since the epoch."""
    charts: list[Chart] = field(default_factory=list)
    wide: int = 60
    """Seconds that each point stands for."""


def drawn(study: Study) -> Drawn:
    """The load, the executors and the delays, on one axis of time. Between parts of the load, where
    nothing was measured, nothing is drawn."""
    if not study.parts:
        return Drawn()
    shown = text.drawn(study)
    last = study.parts[-1]
    wide = width(last.began_at + last.load.seconds - study.parts[0].began_at)
    rows: list[_Bucket | float] = []
    for number, part in enumerate(study.parts):
        runs = {each.name: each.runs[number] for each in shown}
        rows += _buckets(part, runs, study.ran is not None, wide)
        rows.append(part.began_at + part.load.seconds)
    rows.pop()
    times = [each.at if isinstance(each, _Bucket) else each for each in rows]
    known = [each if isinstance(each, _Bucket) else None for each in rows]
    names = [*(each.name for each in shown), *([RECORDED] if study.ran is not None else [])]
    late = LATE * study.application.interval
    charts = [
        Chart(
            *("load", "Input, in records per second"),
            [Series("input", "line", 1, [None if each is None else each.load for each in known])],
            "",
        ),
        Chart(
            *("executors", "Executors"),
            [
                Series(name, "step", place, _of(known, name, "executors"))
                for place, name in enumerate(names)
            ],
            "",
        ),
        Chart(
            *("delay", "Delay of a batch, in seconds"),
            [
                *(
                    Series(name, "line", place, _of(known, name, "delays"))
                    for place, name in enumerate(names)
                ),
                Series(f"late: above {late:g} s", "dashed", 4, [late] * len(times)),
            ],
            "",
        ),
    ]
    return Drawn(times, charts, wide)


def _of(known: Sequence[_Bucket | None], name: str, what: str) -> list[float | None]:
    return [None if each is None else getattr(each, what).get(name) for each in known]


def _buckets(
    part: Stretch, runs: Mapping[str, Run], recorded: bool, wide: int
) -> Iterator[_Bucket]:
    """What a part of the load and each run on it come to, every `wide` seconds."""
    load, most = _most(part.load.step, part.load.rates, wide), part.load.seconds
    executors: dict[str, dict[int, float]] = {}
    delays: dict[str, dict[int, float]] = {}
    for name, run in runs.items():
        changes = [*run.changes, (most, run.changes[-1][1])]
        executors[name], delays[name] = {}, {}
        for (since, number), (until, _) in pairwise(changes):
            for place in range(int(since // wide), int(min(until, most - 1) // wide) + 1):
                _raise(executors[name], place, number)
        for each in run.batches:
            _raise(delays[name], int(each.ended // wide), each.delay)
    if recorded:
        executors[RECORDED], delays[RECORDED] = {}, {}
        for minute in part.minutes:
            place = int((minute.at - part.began_at) // wide)
            if minute.registered is not None:
                _raise(executors[RECORDED], place, minute.registered)
            if minute.delay is not None:
                _raise(delays[RECORDED], place, minute.delay)
    for place, rate in enumerate(load):
        yield _Bucket(
            part.began_at + place * wide,
            rate,
            {name: found[place] for name, found in executors.items() if place in found},
            {name: found[place] for name, found in delays.items() if place in found},
        )


def _raise(found: dict[int, float], place: int, value: float) -> None:
    found[place] = max(value, found.get(place, value))


def _most(step: float, rates: Sequence[float], wide: int) -> list[float]:
    """The highest rate of every `wide` seconds."""
    found: dict[int, float] = {}
    for number, rate in enumerate(rates):
        first, last = number * step, (number + 1) * step
        for place in range(int(first // wide), max(int(first // wide) + 1, -(-int(last) // wide))):
            _raise(found, place, rate)
    return [found[place] for place in sorted(found)]


def report(stream: str, study: Study, files: Mapping[str, str]) -> str:
    """A backtest as one file.

    Args:
        files: the style sheets and scripts, by name.
    """
    of = drawn(study)
    title = f"{stream}: backtest"
    data = json.dumps(_data(of), separators=(",", ":"), allow_nan=False)
    thinned = f" Each point is the highest of {in_units(of.wide)}." if of.wide > 60 else ""
    main = el(
        "main",
        el("p", text.conclusion(stream, study), class_="said"),
        [el("p", line, class_="note") for line in text.believed(study)],
        html_table("Policies that were tried", text.COLUMNS, text.rows(study))
        if study.outcomes
        else (),
        el("p", id="at", role="status", class_="note"),
        [stream_html.chart(each, of.times) for each in of.charts],
        [el("p", line, class_="note") for line in text.notes(study)],
        el("p", f"All times are in UTC.{thinned} {_doubtful(study)}", class_="note"),
        el("script", Html(data.replace("<", "\\u003c")), type="application/json", id="charts"),
        id="main",
    )
    return frame.one_file(title, el("header", el("h1", title)), main, files)


def _data(of: Drawn) -> dict[str, Any]:
    ends = {"since": of.times[0], "until": of.times[-1]} if of.times else {"since": 0, "until": 1}
    return {**as_json(of.times, of.charts), **ends, "marks": []}


def _doubtful(study: Study) -> str:
    """Minutes that say little, in words."""
    at = sorted(moment for part in study.parts for moment in part.doubtful)
    if not at:
        return ""
    return (
        f"{len(at)} minutes from {clock(at[0])} to {clock(at[-1])} say little: a limit, or the "
        "maximum of executors, hides what came."
    )
