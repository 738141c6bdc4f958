"""Schedules that a user declares, tried on Dagster itself, which has to take them."""

import warnings
from collections.abc import Iterator

from dagster_sparkscale.declare.faults import shown


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


def _is_taken(cron: str, timezone: str | None) -> bool:
    # Not above: streams are declared without Dagster, unless there is a schedule for it to try.
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
