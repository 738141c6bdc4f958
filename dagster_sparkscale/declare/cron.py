"""Cron as Dagster reads it: whether a text is one, and when it begins something.

One reader serves schedules of maintenance and retuning and windows of a calendar, so that the same
text means the same in each field.
"""

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise, takewhile

from dagster_sparkscale.declare.faults import shown

_SAMPLE = 2100
"""Starts of a cron schedule by which it is checked: a week of one each five minutes."""
_FIRST, _LAST = datetime(2024, 1, 1), datetime(2029, 1, 1)
"""Wall times between which these starts lie: two leap years, so that every date comes."""
_LEAP = timedelta(days=2)
"""How much earlier Dagster is to begin with 29 February, of which it leaves the first one out."""


def schedule_faults(field: str, cron: str | None, timezone: str | None) -> Iterator[str]:
    """What is wrong with a schedule that Dagster would not take, or a timezone that is for none.

    Args:
        field: the field that has `cron`.
    """
    if cron is not None and not _is_taken(cron, None):
        yield (
            f"{field} = {shown(cron)}: must be a cron schedule of five fields, such as "
            '"0 3 * * SUN", or a word for one, such as "@daily"'
        )
    if timezone is not None and cron is None:
        yield f"timezone = {timezone!r}: drop it, or give {field}, which it is for"
    elif timezone is not None and not (timezone and _is_taken("@daily", timezone)):
        # To Dagster, an empty one is none at all.
        yield (
            f"timezone = {shown(timezone)}: must be the name of a timezone, such as "
            '"Europe/Berlin" or "UTC"'
        )


def next_start(cron: str, wall: datetime) -> datetime:
    """The first time after `wall` that `cron` names; both without a zone, as a clock shows them."""
    begin = wall - _LEAP if cron.endswith(" 29 2 *") else wall
    return next(each for each in _starts(cron, begin) if each > wall)


def last_start(cron: str, wall: datetime) -> datetime:
    """The last time until `wall` that `cron` names; both without a zone, as a clock shows them."""
    return next(each for each in _starts(cron, wall, back=True) if each <= wall)


@lru_cache(maxsize=1024)
def sampled(cron: str) -> tuple[datetime, ...]:
    """Many times that `cron` names, one after the other, as a clock shows them. Empty: it names a
    day that never comes, such as 31 February."""
    try:
        found = _starts(cron, _FIRST)
        return tuple(islice(takewhile(lambda each: each < _LAST, found), _SAMPLE))
    except ValueError:  # Dagster has found no such day in 50 years
        return ()


@lru_cache(maxsize=1024)
def gaps(cron: str) -> frozenset[timedelta]:
    """How long it is from one time that `cron` names to the next."""
    return frozenset(after - before for before, after in pairwise(sampled(cron)))


def _starts(cron: str, wall: datetime, back: bool = False) -> Iterator[datetime]:
    from dagster_sparkscale.private_dagster import cron_times

    # In UTC no time is skipped and none comes twice: Dagster's times are those of the text alone.
    # With a zone some are wrong where clocks change, as 01:00 for a start at 02:30 in Casablanca.
    for each in cron_times(cron, wall.replace(tzinfo=UTC).timestamp(), back):
        yield each.replace(tzinfo=None)


def _is_taken(cron: str, timezone: str | None) -> bool:
    # Not above: streams are declared without Dagster, unless there is something for it to read.
    import dagster as dg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come again with the schedule itself
        try:
            dg.ScheduleDefinition(
                "tried", cron_schedule=cron, job_name="tried", execution_timezone=timezone
            )
        except dg.DagsterInvalidDefinitionError:
            return False
    return True
