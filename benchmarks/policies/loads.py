"""The loads on which policies are compared: what comes in, and the stream that it comes into.

One executor is worth some 500 records/s. Loads are of four groups, and of each group one half is
for tuning (`tune`) and the other one for the figures (`report`). The lists are fixed: no setting
was chosen by the loads that are reported.

- `smooth`: it changes by little from one minute to the next.
- `bursty`: spikes, random walks, counting noise.
- `onoff`: it comes and goes within the minute, with quiet hours in between.
- `step`: it changes once and stays, or what a record costs does.

The traces are from elsewhere: `traces/ATTRIBUTION.md` names their sources and licences.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dagster_sparkscale.backtest.loads import Load, joined, read_csv
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.learner import Workload

Group = Literal["smooth", "bursty", "onoff", "step"]
Half = Literal["tune", "report"]
GROUPS: tuple[Group, ...] = ("smooth", "bursty", "onoff", "step")

ONE = 500.0
"""Records/s for which one executor is enough, with a tenth to spare."""
BOUNDS = Bounds(minimum=1, maximum=40, initial=4)
DSTREAMS = Application(
    Workload(batch_interval=10.0, slots=2),
    overhead=0.8,
    work=0.0032,
    partitions=64,
    noise=0.1,
    start_delay=30.0,
)
"""Batches of 10 s, 64 tasks, two at a time on an executor; 10 % noise, 30 s until executors are
there."""
STRUCTURED = replace(DSTREAMS, queues=False)
TRACES = Path(__file__).parent / "traces"
_HOUR = 3600.0


@dataclass(frozen=True)
class Case:
    """A load, and the stream that it comes into."""

    group: Group
    half: Half
    load: Load
    application: Application = DSTREAMS
    bounds: Bounds = BOUNDS
    step_at: float | None = None
    """When its one step up from 2 to 16 executors' worth is, seconds from the beginning; None: it
    has none."""
    seeds: tuple[int, ...] = (1,)
    """Of the runs that its numbers are the mean of."""

    @property
    def name(self) -> str:
        """Its load's name: no two have the same."""
        return self.load.name


def _drawn(name: str, hours: float, step: float, worth: Callable[[float], float]) -> Load:
    """A load by its executors' worth at each moment, in seconds from the beginning."""
    count = round(hours * _HOUR / step)
    rates = (max(0.0, ONE * worth((index + 0.5) * step)) for index in range(count))
    return Load(name, step, tuple(rates))


def step(name: str, *parts: tuple[float, float]) -> Load:
    """Executors' worth, each for so many hours."""
    rates = tuple(ONE * worth for worth, hours in parts for _ in range(round(hours * 60)))
    return Load(name, 60.0, rates)


def ramp(name: str, low: float, high: float, up: float, down: float, rest: float = 1.0) -> Load:
    """From the low end up to the high one, a rest, and down: hours of each."""

    def worth(at: float) -> float:
        hours = at / _HOUR - rest
        rising = min(1.0, max(0.0, hours / up))
        falling = min(1.0, max(0.0, (hours - up - rest) / down))
        return low + (high - low) * (rising - falling)

    return _drawn(name, 3 * rest + up + down, 10.0, worth)


def cosine(name: str, low: float, high: float, period: float, hours: float) -> Load:
    """Between two levels and back, in a period of hours."""

    def worth(at: float) -> float:
        turn = math.cos(2 * math.pi * at / (period * _HOUR))
        return low + (high - low) * (1 - turn) / 2

    return _drawn(name, hours, 10.0, worth)


def daily(name: str, low: float, high: float) -> Load:
    """A night, a steep morning, a hump at noon and a higher one in the evening."""

    def worth(at: float) -> float:
        hour = at / _HOUR
        noon, evening = (math.exp(-(((hour - of) / 2.5) ** 2)) for of in (12.0, 19.5))
        return low + (high - low) * min(1.0, 0.75 * noon + evening)

    return _drawn(name, 24.0, 60.0, worth)


def spikes(name: str, level: float, times: tuple[float, ...], every: float, hours: float) -> Load:
    """A level with a spike every so many minutes, give or take a third, of 1 to 4 minutes, so many
    times as high: in turn as `times` has it."""
    draw = random.Random(name)
    rates = [level] * round(hours * 360)
    at, number = every, 0
    while (begin := round(at * 6)) < len(rates):
        length = draw.randint(6, 24)
        for index in range(begin, min(len(rates), begin + length)):
            rates[index] = level * times[number % len(times)]
        at, number = at + every * draw.uniform(2 / 3, 4 / 3), number + 1
    return Load(name, 10.0, tuple(ONE * rate for rate in rates))


def walk(name: str, level: float, a_minute: float, hours: float) -> Load:
    """A random walk by factors of so much a minute, drawn back to its level within an hour."""
    draw = random.Random(name)
    place, rates = 0.0, []
    for _ in range(round(hours * 60)):
        place += draw.gauss(0.0, a_minute) - place / 60
        rates.append(ONE * min(28.0, level * math.exp(place)))
    return Load(name, 60.0, tuple(rates))


def noisy(name: str, low: float, high: float, noise: float, hours: float) -> Load:
    """A slow wave, whose every ten seconds differ by chance."""
    draw, wave = random.Random(name), cosine(name, low, high, 4.0, hours)
    return replace(wave, rates=tuple(rate * max(0.0, draw.gauss(1, noise)) for rate in wave.rates))


def on_off(
    name: str,
    on: tuple[float, float],
    off: tuple[float, float],
    between: tuple[float, float, float],
    hours: float,
) -> Load:
    """Executors' worth for so many seconds, then another for so many, for an hour and a half; then
    something steady, `between` two levels in so many hours, and so on.

    Args:
        on: executors' worth, and seconds.
        off: the same, in between.
        between: lowest and highest executors' worth, and hours.
    """

    def worth(at: float) -> float:
        low, high, calm = between
        into = at % ((1.5 + calm) * _HOUR)
        if into < calm * _HOUR:
            return low + (high - low) * math.sin(math.pi * into / (calm * _HOUR))
        return on[0] if at % (on[1] + off[1]) < on[1] else off[0]

    return _drawn(name, hours, 5.0, worth)


def trace(name: str, mean: float, less: float = 0.0, most: float = 28.0) -> Load:
    """A trace in executors' worth.

    Args:
        mean: executors' worth on average, before what is above `most` is cut off.
        less: share of its mean that is taken off first, where its authors have put that on.
        most: executors' worth at most.
    """
    load = read_csv(TRACES / f"{name}.csv.gz")
    rates = [max(0.0, rate - less * load.mean) for rate in load.rates]
    factor = mean * ONE * len(rates) / sum(rates)
    return replace(load, rates=tuple(min(most * ONE, factor * rate) for rate in rates))


def between_steps(load: Load, step: float = 60.0) -> Load:
    """A smooth trace of long steps as a line from the middle of each to that of the next one."""
    count, rates = round(load.step / step), load.rates

    def at(index: int) -> float:
        place = (index + 0.5) / count - 0.5
        first = min(max(0, math.floor(place)), len(rates) - 1)
        other = min(first + 1, len(rates) - 1)
        return rates[first] + (rates[other] - rates[first]) * min(1.0, max(0.0, place - first))

    return replace(load, step=step, rates=tuple(at(index) for index in range(count * len(rates))))


def _named(name: str, load: Load) -> Load:
    return replace(load, name=name)


def _smooth() -> list[Case]:
    ads = trace("ads_clicks", 8.0)
    sink = replace(DSTREAMS, sink_rate=6000.0)
    return [
        Case("smooth", "tune", ramp("ramp", 2, 20, 3.0, 2.0)),
        Case("smooth", "tune", cosine("cosine", 2, 16, 4.0, 12.0), STRUCTURED),
        Case("smooth", "tune", between_steps(trace("nyc_taxi_day_14", 9.0, less=0.6))),
        Case("smooth", "tune", _named("ads_clicks_day_1", ads.part(0, 6 * _HOUR))),
        Case("smooth", "tune", cosine("cosine, slow sink", 2, 9, 3.0, 9.0), sink),
        Case("smooth", "report", ramp("ramp, steeper", 3, 24, 1.5, 4.0), STRUCTURED),
        Case("smooth", "report", cosine("cosine, slower", 4, 12, 7.0, 14.0)),
        Case("smooth", "report", daily("daily", 1.5, 18)),
        Case("smooth", "report", between_steps(trace("wiki_en_day_7", 10.0))),
        Case("smooth", "report", _named("ads_clicks_day_3", ads.part(12 * _HOUR, 18 * _HOUR))),
        Case(
            "smooth",
            "report",
            cosine("cosine, sink without speed-up", 3, 10, 5.0, 10.0),
            replace(DSTREAMS, sink_rate=6700.0),
        ),
    ]


def _bursty() -> list[Case]:
    azure = trace("azure_llm_conv", 8.0)
    return [
        Case("bursty", "tune", spikes("spikes", 4, (2, 3, 1.5), 45, 10)),
        Case("bursty", "tune", walk("random walk", 7, 0.1, 12.0)),
        Case("bursty", "tune", noisy("noisy", 3, 14, 0.2, 8.0), STRUCTURED),
        Case("bursty", "tune", trace("nasa_http_day_10", 5.0)),
        Case("bursty", "tune", trace("tweets_goog_day_1", 3.0)),
        Case("bursty", "report", spikes("spikes, higher", 5, (3, 1.5, 2, 4), 60, 12)),
        Case("bursty", "report", walk("random walk, wilder", 6, 0.14, 12.0), STRUCTURED),
        Case("bursty", "report", _named("azure_llm_conv", joined([azure] * 3, "azure"))),
        Case("bursty", "report", trace("nasa_http_day_13", 4.0)),
        Case("bursty", "report", trace("elb_requests_day_8", 4.0)),
        Case("bursty", "report", trace("tweets_amzn_day_7", 3.0)),
    ]


def _onoff() -> list[Case]:
    return [
        Case("onoff", "tune", on_off("on 20 s, off 40 s", (12, 20), (1, 40), (3, 6, 1.5), 9.0)),
        Case("onoff", "tune", on_off("on 15 s, off 35 s", (14, 15), (2, 35), (2, 5, 2.0), 10.5)),
        Case("onoff", "report", on_off("on 25 s, off 35 s", (10, 25), (0.5, 35), (3, 7, 1.0), 7.5)),
        Case("onoff", "report", on_off("on 10 s, off 50 s", (16, 10), (1, 50), (2, 4, 1.5), 9.0)),
        Case(
            "onoff",
            "report",
            on_off("on 20 s, off 45 s", (12, 20), (2, 45), (4, 8, 2.0), 10.5),
            STRUCTURED,
        ),
    ]


def _step() -> list[Case]:
    cost = ((2 * _HOUR, 2.0), (4 * _HOUR, 0.7))
    other = ((1.5 * _HOUR, 1.6), (3 * _HOUR, 2.4), (4.5 * _HOUR, 1.0))
    two = Case(
        *("step", "report", step("step 2 to 16", (2, 2), (16, 1))),
        step_at=2 * _HOUR,
        seeds=(1, 2, 3),
    )
    return [
        Case("step", "tune", step("step 3 to 12", (3, 1.5), (12, 1.5), (3, 1.5))),
        Case("step", "tune", step("step 5 to 20", (5, 1.5), (20, 1.5)), STRUCTURED),
        Case("step", "tune", step("cost jumps", (6, 6)), replace(DSTREAMS, costs=cost)),
        two,
        replace(two, load=_named("step 2 to 16, Structured", two.load), application=STRUCTURED),
        Case("step", "report", step("step 16 to 4 to 10", (16, 1.5), (4, 1.5), (10, 1.5))),
        Case("step", "report", step("cost jumps, other", (7, 6)), replace(DSTREAMS, costs=other)),
    ]


def cases() -> list[Case]:
    """All of them, in order. Each begins with the executors that its first minutes need, and one
    more: what is compared is how a policy goes on, not how it begins."""
    found = [*_smooth(), *_bursty(), *_onoff(), *_step()]
    return [replace(case, bounds=replace(case.bounds, initial=_first(case))) for case in found]


def _first(case: Case) -> int:
    first = case.load.part(0, 300.0).mean / ONE
    return case.bounds.clamp(math.ceil(first) + 1)
