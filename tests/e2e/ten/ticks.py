"""Whether Dagster has ticked and told as documented, by what its storage has in the end."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import dagster as dg
from dagster._core.scheduler.instigation import InstigatorTick, TickStatus

from dagster_sparkscale import history
from dagster_sparkscale.names import MINUTES
from tests.e2e.ten.faults import Fault

APART = 90.0
"""Seconds between two ticks from which on one is missing: they come every 60 to 65 s."""
AFTER = 120.0
"""Seconds after a fault of the daemon or the code server in which a tick may come late or fail."""
BEFORE = 70.0
"""Seconds before it: a tick that had begun has met it."""
REPORT_EVERY = 600.0
"""Seconds between two events of a stream to which nothing happens."""


@dataclass(frozen=True)
class Ticks:
    """What came of the autoscaler's ticks."""

    by_status: dict[str, int]
    lost: list[str]
    """In words: those that are missing, or did not end well, though daemon and code server ran."""
    excused: list[str]
    """The same, at a time when the daemon or the code server was down, or stood still, or shortly
    after that."""
    longest_gap: float
    """Seconds between two ticks, outside of such times."""
    longest: float
    """Seconds that a tick has taken."""
    excused_share: float
    """The share of all seconds that are such times."""


def ticks(
    instance: dg.DagsterInstance, since: float, until: float, faults: Sequence[Fault]
) -> Ticks:
    """What came of the ticks between two times, seconds since the epoch."""
    found = between(instance, since, until)
    down = [(each.began - BEFORE, each.ended + AFTER) for each in faults if each.of_watchers]
    lost: list[str] = []
    excused: list[str] = []
    longest = 0.0
    for at, following in pairwise([since, *(each.timestamp for each in found), until]):
        met = any(begin < following and at < end for begin, end in down)
        if not met:
            longest = max(longest, following - at)
        if following - at > APART:
            words = f"no tick for {following - at:.0f} s from {at - since:.0f} s on"
            (excused if met else lost).append(words)
    for each in found:
        if ended_well(each):
            continue
        error = each.error.message.strip()[:200] if each.error else "no error"
        words = f"{each.status.value} at {each.timestamp - since:.0f} s: {error}"
        met = any(begin < each.timestamp < end for begin, end in down)
        (excused if met else lost).append(words)
    by_status = Counter(each.status.value for each in found)
    took = max(
        (each.end_timestamp - each.timestamp for each in found if each.end_timestamp), default=0
    )
    moments = range(int(since), int(until))
    share = sum(any(begin <= at < end for begin, end in down) for at in moments) / len(moments)
    return Ticks(
        *(dict(by_status), lost, excused, round(longest, 1), round(took, 1), round(share, 3))
    )


def _ticks(instance: dg.DagsterInstance) -> list[InstigatorTick]:
    (state,) = (
        each for each in instance.all_instigator_state() if each.instigator_name == "autoscaler"
    )
    found = instance.get_ticks(state.instigator_origin_id, state.selector_id)
    return sorted(found, key=lambda each: each.timestamp)


@dataclass(frozen=True)
class Told:
    """What Dagster was told of a stream."""

    events: int
    """Of the sensor: each with all minutes since the one before."""
    as_before: int
    """Of these, those of minutes in which nothing had happened."""
    others: int
    """Stories of operations, and materializations of starts."""
    minutes: int
    found: list[str]
    """What is not as documented, in words."""


def told(
    instance: dg.DagsterInstance,
    stream: str,
    since: float,
    until: float,
    good: Sequence[float],
    begun: Sequence[float],
    faults: Sequence[Fault],
) -> Told:
    """What Dagster was told of a stream between two times.

    Args:
        good: when the ticks were that ended well, seconds since the epoch.
        begun: when all ticks were.
    """
    asset = dg.AssetRecordsFilter(dg.AssetKey(stream), after_timestamp=since)
    moments, others, as_before = [], 0, 0
    for fetch in (instance.fetch_materializations, instance.fetch_observations):
        cursor: str | None = None
        while True:
            page = fetch(asset, limit=200, cursor=cursor)
            for record in page.records:
                event = record.asset_materialization or record.event_log_entry.asset_observation
                assert event is not None
                if MINUTES in event.metadata:
                    moments.append(record.timestamp)
                    as_before += "as before" in (event.description or "")
                else:
                    others += 1
            if not page.has_more:
                break
            cursor = page.cursor
    moments.sort()
    found = []
    in_each = Counter(bisect_right(begun, at) for at in moments)
    if (most := max(in_each.values(), default=0)) > 1:
        found.append(f"{most} events in one tick")
    if as_before > (until - since) / REPORT_EVERY + 2:
        found.append(f"{as_before} events say that nothing has happened")
    down = [(each.began - BEFORE, each.ended + AFTER) for each in faults if each.of_watchers]
    for at, following in pairwise([since, *moments, until]):
        met = any(begin < following and at < end for begin, end in down)
        if following - at > REPORT_EVERY + 2 * APART + (AFTER if met else 0.0):
            found.append(f"not told of for {following - at:.0f} s")
    minutes = [each.at for each in history(instance, stream, since) if each.at <= until]
    # Those after the last event come with the next one.
    last = moments[-1] if moments else since
    missing = [
        at for at in good if at + APART < last and not any(abs(at - each) < 15 for each in minutes)
    ]
    if missing:
        found.append(
            f"{len(missing)} minutes are in no event: {[round(m - since) for m in missing]}"
        )
    return Told(len(moments), as_before, others, len(minutes), found)


def between(instance: dg.DagsterInstance, since: float, until: float) -> list[InstigatorTick]:
    """The ticks between two times, in their order."""
    return [each for each in _ticks(instance) if since <= each.timestamp <= until]


def ended_well(tick: InstigatorTick) -> bool:
    return tick.status in (TickStatus.SUCCESS, TickStatus.SKIPPED)
