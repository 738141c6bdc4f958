"""When a stream is told of: at once if something has happened to it, else every now and then. Pure.

What wavers around a threshold has not happened: it counts as below again only at `CALM` of it.
"""

import zlib
from collections.abc import Mapping
from types import MappingProxyType

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.marks import same
from dagster_sparkscale.watch.memory import Reported

OVERLOAD = 1.0
"""R from which batches take longer than they have."""
LATE = 60.0
"""Seconds of lag, and `LATE_BATCHES` batch intervals, that are news where there is no max_lag."""
LATE_BATCHES = 10
CALM = 0.8
OPERATED = "operated"
"""The key of the news of what people, schedules or a failed run have done."""
PAUSE = 180.0
"""Seconds between two events of what may come and go: a stream that flaps must not be told of every
minute."""


def late_from(max_lag: float | None, batch_interval: float) -> float:
    """Seconds of lag that are news."""
    return max(LATE, LATE_BATCHES * batch_interval) if max_lag is None else max_lag


def said(
    before: Reported,
    minute: Minute,
    headline: str,
    late: float,
    news: Mapping[str, str] = MappingProxyType({}),
) -> Reported:
    """What an event about `minute` says. What can't be told now is as it was,
    but for the load of a stopped stream, which has none.

    Args:
        before: what the last event said.
        headline: the state, short.
        late: seconds of lag that are news.
        news: what capabilities have to say. What one says no more is as it was said before.
    """
    same, stopped = before.epoch == minute.epoch, minute.state == "stopped"
    return Reported(
        at=minute.at,
        headline=headline,
        epoch=minute.epoch,
        registered=_known(minute.registered, before.registered if same else None),
        requested=_known(minute.requested, before.requested if same else None),
        overloaded=not stopped and _above(minute.ratio, OVERLOAD, before.overloaded),
        late=not stopped and _above(minute.lag, late, before.late),
        news={**(before.news if same else {}), **news},
    )


def occasion(
    stream: str, before: Reported, now: Reported, *, acts: bool, report_every: float
) -> str | None:
    """Why a stream is told of now, in words; None: it waits for a later minute.

    Args:
        acts: whether something is to be done to it.
        report_every: seconds between two events of a stream to which nothing happens.
    """
    if not before.at:
        return "first look"
    if before.headline != now.headline:
        return f"{before.headline} -> {now.headline}"
    if before.epoch != now.epoch:
        return f"driver {before.epoch} -> {now.epoch}"
    if acts:
        return "decision"
    if (done := now.news.get(OPERATED)) and not same(done, before.news.get(OPERATED)):
        return done
    if not 0 <= now.at - before.lesser_at < PAUSE and (what := lesser(before, now)):
        return what
    return "as before" if has_come(stream, report_every, before.at, now.at) else None


def has_come(stream: str, every: float, since: float, now: float) -> bool:
    """Whether a moment has come that a stream has in each `every` seconds. Each has its own, so
    that those of a thousand do not fall into one tick.

    Args:
        since: seconds since the epoch, as `now`.
    """
    moment = zlib.crc32(stream.encode())
    return (now + moment) // every != (since + moment) // every


def lesser(before: Reported, now: Reported) -> str | None:
    """What may come and go every minute, as executors do: told of at once, but not again before
    `PAUSE` is over."""
    for name in ("registered", "requested"):
        was, is_now = getattr(before, name), getattr(now, name)
        if was != is_now:
            return f"executors {name}: {_or_unknown(was)} -> {_or_unknown(is_now)}"
    for key, text in now.news.items():
        if not same(before.news.get(key), text):
            return text
    if before.overloaded != now.overloaded:
        return f"R {'reached' if now.overloaded else 'is well below'} {OVERLOAD:g}"
    if before.late != now.late:
        return "lag grew" if now.late else "lag shrank"
    return None if same(before.failing, now.failing) else "health"


def _above(value: float | None, threshold: float, before: bool) -> bool:
    if value is None:
        return before
    return value >= (CALM * threshold if before else threshold)


def _known(value: int | None, before: int | None) -> int | None:
    return before if value is None else value


def _or_unknown(value: int | None) -> str:
    return "unknown" if value is None else str(value)
