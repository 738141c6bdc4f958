"""When something is to happen by itself: Dagster judges what is given, as it will read it."""

import warnings

from dagster_sparkscale.declare.faults import shown


def check_cron(name: str, value: str) -> None:
    """Refuse what Dagster takes for no cron schedule.

    Raises:
        ValueError: the text is no cron schedule.
    """
    if not _is_taken(value, None):
        raise ValueError(
            f"{name} = {shown(value)}: must be a cron schedule of five fields, such as "
            '"0 3 * * SUN", or a word for one, such as "@daily"'
        )


def check_timezone(name: str, value: str) -> None:
    """Refuse what Dagster knows no timezone by.

    Raises:
        ValueError: no time zone has that name.
    """
    if not value or not _is_taken("@daily", value):  # to Dagster, empty is none given
        raise ValueError(
            f"{name} = {shown(value)}: must be the name of a timezone, such as "
            '"Europe/Berlin" or "UTC"'
        )


def _is_taken(cron: str, timezone: str | None) -> bool:
    # Not above: streams are declared without Dagster, unless there is something for it to judge.
    import dagster as dg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come again with the schedule itself
        try:
            dg.ScheduleDefinition(
                "judged", cron_schedule=cron, job_name="judged", execution_timezone=timezone
            )
        except dg.DagsterInvalidDefinitionError:
            return False
    return True
