"""A stream's minutes, read back from Dagster's event log."""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby, pairwise

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.markdown import carried
from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.observe.minutes import Minute, merged, restored

_PAGE = 500
"""Events asked for at a time."""
_CLOCKS = 60.0
"""Seconds that the clock of whoever stores events may be behind that of the sensor."""
_AHEAD = 86400.0
"""Seconds that the clock of the sensor was ahead at most, before it was set back: for so long
events of later minutes may stand before those of earlier ones."""


def history(
    instance: DagsterInstance,
    stream: dg.AssetKey | Sequence[str] | str,
    since: float,
    until: float | None = None,
) -> list[Minute]:
    """What was seen of a stream, minute by minute, as the event log has it.

    One row a tick, in order of time; `pandas.DataFrame(history(...))` makes a table of it. The
    minutes since the last event are not stored yet: they come with the next one, after the
    stream's `report_every` and a tick at the latest. An empty list: of a stream that Dagster knows,
    nothing is stored of that time, for it did not run, or nobody looked. A year is half a million
    rows, some 300 MB: `each_minute` has them one after the other.

    Args:
        instance: of Dagster, as `context.instance` or `DagsterInstance.get()`.
        stream: the key of the stream's asset, or its name where it has no `key_prefix`.
        since: the first minute, seconds since the epoch.
        until: the minute to end before, seconds since the epoch; None: now.

    Raises:
        ValueError: `until` is before `since`.
        LookupError: no event of such an asset is stored: its key is another, or it has never been
            looked at, or it was wiped.
    """
    found = list(each_minute(instance, stream, since, until))
    # A clock that was set back by more than a day.
    in_order = all(one.at < other.at for one, other in pairwise(found))
    return found if in_order else merged([found])


def each_minute(
    instance: DagsterInstance,
    stream: dg.AssetKey | Sequence[str] | str,
    since: float,
    until: float | None = None,
) -> Iterator[Minute]:
    """Yield what `history` lists, one by one: in memory there is a page of events and a day of
    minutes, however long the time is.

    Raises:
        ValueError: `until` is before `since`.
        LookupError: no event of such an asset is stored. Both at once, before the first minute.
    """
    until = time.time() if until is None else until
    if until < since:
        raise ValueError(f"until = {until}: must not be before since = {since}")
    key = stream if isinstance(stream, dg.AssetKey) else dg.AssetKey(stream)
    if not instance.has_asset_key(key):
        raise LookupError(_unknown(instance, key))
    kinds = (instance.fetch_materializations, instance.fetch_observations)
    of_each = [_in_order(_minutes(fetch, key, since, until)) for fetch in kinds]
    return _each_once(heapq.merge(*of_each, key=_at))


def _minutes(
    fetch: Callable[..., dg.EventRecordsResult], key: dg.AssetKey, since: float, until: float
) -> Iterator[Minute]:
    for minutes in _events(fetch, key, since, until):
        yield from (each for each in minutes if since <= each.at < until)


def _in_order(minutes: Iterable[Minute]) -> Iterator[Minute]:
    """The minutes in order of time, as far as clocks were ahead by no more than `_AHEAD`. Of those
    of one moment the one that was stored last comes last. Pure."""
    waiting: list[tuple[int, int, Minute]] = []
    newest = 0
    for number, each in enumerate(minutes):
        heapq.heappush(waiting, (each.at, number, each))
        newest = max(newest, each.at)
        while waiting[0][0] < newest - _AHEAD:
            yield heapq.heappop(waiting)[-1]
    while waiting:
        yield heapq.heappop(waiting)[-1]


def _each_once(minutes: Iterable[Minute]) -> Iterator[Minute]:
    """What was stored twice after a crash counts once: as it was stored last. Pure."""
    for _, same in groupby(minutes, _at):
        *_, last = same
        yield last


def _at(minute: Minute) -> int:
    return minute.at


def _unknown(instance: DagsterInstance, key: dg.AssetKey) -> str:
    name = key.to_user_string()
    known = [each.to_user_string() for each in instance.all_asset_keys()]
    near = get_close_matches(name, known, n=1)
    mean = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"stream = {name!r}: must be an asset with stored events, and Dagster has none of it: the "
        f"autoscaler has not watched it yet, or its key is another{mean}"
    )


def newest(instance: DagsterInstance, key: dg.AssetKey, most: int) -> list[Minute]:
    """The minutes of the last `most` events of each kind, in order of time."""
    found = [
        *instance.fetch_materializations(key, most).records,
        *instance.fetch_observations(key, most).records,
    ]
    return merged(map(minutes_of, found))


def _events(
    fetch: Callable[..., dg.EventRecordsResult], key: dg.AssetKey, since: float, until: float
) -> Iterator[list[Minute]]:
    """The minutes of each event that may have some of the span, the oldest event first."""
    # However late: minutes that were pending while Dagster was down come with its next event.
    wanted = dg.AssetRecordsFilter(asset_key=key, after_timestamp=since - _CLOCKS)
    cursor, more = None, True
    while more:
        page = fetch(wanted, _PAGE, cursor, ascending=True)
        for record in page.records:
            minutes = minutes_of(record)
            yield minutes
            if record.timestamp > until + _AHEAD and any(each.at >= until for each in minutes):
                return
        cursor, more = page.cursor, page.has_more


def minutes_of(record: dg.EventLogRecord) -> list[Minute]:
    """The minutes that an event carries; none where it has none, as that of an operation."""
    event = record.asset_materialization or record.asset_observation
    value = event.metadata.get(MINUTES) if event else None
    text = carried(value.value) if value is not None else None
    try:
        return restored(text) if text is not None else []
    except ValueError:
        return []  # an event of somebody else's, under our name
