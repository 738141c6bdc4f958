"""The private parts of Dagster that a code location uses, each in one place.

Dagster may move any of them in any release. That costs the feature which needs it, and never the
code location: nothing is imported before it is used, and what is not there any more is passed over.
What the command line needs is in `cli/private_dagster.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

MAX_RETRIES_TAG, RETRY_NUMBER_TAG = "dagster/max_retries", "dagster/retry_number"
RUN_KEY_TAG, SCHEDULE_NAME_TAG = "dagster/run_key", "dagster/schedule_name"
SENSOR_NAME_TAG, PARENT_RUN_ID_TAG = "dagster/sensor_name", "dagster/parent_run_id"
REPOSITORY_LABEL_TAG = ".dagster/repository"
"""Tags of runs, as Dagster stores them: a release that called them otherwise could not read its own
runs."""

_GONE = (ImportError, AttributeError, TypeError)
"""The errors of using a part that has moved or changed."""


def register_library(name: str, version: str) -> None:
    """Have Dagster's pages name this library. Without it they do not."""
    try:
        from dagster._core.libraries import DagsterLibraryRegistry

        DagsterLibraryRegistry.register(name, version, is_dagster_package=False)
    except _GONE:
        pass


def carrying(key: str, value: object) -> dict[str, Any]:
    """Metadata of a definition that carries an object within the process: `sparkscale` finds its
    streams by it. Empty where Dagster lacks that."""
    try:
        from dagster._core.definitions.metadata.metadata_value import ObjectMetadataValue

        return {key: ObjectMetadataValue(value)}
    except _GONE:
        return {}


def carried(metadata: Mapping[str, Any], key: str) -> Any:
    """The object that a definition carries; None: it carries none."""
    return getattr(metadata.get(key), "instance", None)


def cron_times(cron: str, start: float, back: bool) -> Iterator[datetime]:
    """The times that a cron schedule names in UTC, from `start` on, or back from there.

    Args:
        start: seconds since the epoch.

    Raises:
        RuntimeError: this release of Dagster can't say. A stream whose freezes are not known must
            not be scaled as if there were none.
    """
    try:
        from dagster._utils.schedules import cron_string_iterator

        times = cron_string_iterator(start, cron, "UTC", ascending=not back)
    except _GONE:
        text = f"Dagster {dg.__version__} does not say when a cron schedule is"
        raise RuntimeError(f"{text}: declare no calendar with it") from None
    yield from times


def is_check_error(error: BaseException) -> bool:
    """Whether Dagster has refused the type of a parameter of its own."""
    return any(each.__name__ == "CheckError" for each in type(error).__mro__)


def code_location(context: Any) -> str | None:
    """The name of the code location whose sensor ticks; None: it has none, such as in a test."""
    return _location(getattr(context, "code_location_origin", None))


def sensor_cursors(instance: dg.DagsterInstance, location: str | None) -> Sequence[tuple[str, str]]:
    """The names and cursors of a code location's sensors, also of sensors that it has no more, and
    of several repositories; none where Dagster does not say."""
    try:
        if instance.schedule_storage is None:  # of a test
            return []
        return [
            (state.instigator_name, cursor)
            for state in instance.all_instigator_state()
            if (cursor := getattr(state.instigator_data, "cursor", None))
            and _location(state.origin.repository_origin.code_location_origin) == location
        ]
    except _GONE:
        return []


def code_location_of(run: dg.DagsterRun) -> str | None:
    """The name of the code location that a run belongs to; None: it has none."""
    found = _location(getattr(run, "remote_job_origin", None))
    # Of the command line, which has loaded the code location by itself.
    return found or run.tags.get(REPOSITORY_LABEL_TAG, "").partition("@")[2] or None


def _location(origin: Any) -> str | None:
    name: str | None = getattr(origin, "location_name", None)
    return name


def is_of_a_run() -> bool:
    """Whether definitions are loaded for a run, which has been accepted with them; False where
    Dagster does not say."""
    try:
        from dagster._core.definitions.definitions_load_context import (
            DefinitionsLoadContext,
            DefinitionsLoadType,
        )

        context = DefinitionsLoadContext.get() if DefinitionsLoadContext.is_set() else None
        return context is not None and context.load_type is DefinitionsLoadType.RECONSTRUCTION
    except _GONE:
        return False


def stored_outcomes(
    instance: dg.DagsterInstance, keys: Iterable[dg.AssetCheckKey]
) -> Mapping[dg.AssetCheckKey, bool | None] | None:
    """Read whether each check passed when it was stored last. A check's None: nothing is stored.
    None for all: Dagster can't say."""
    keys = list(keys)
    try:
        stored = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
        found = {key: getattr(stored.get(key), "evaluation", None) for key in keys}
    except _GONE:
        return None
    # A check that a run has planned and not reported has only that plan, whatever was stored
    # before.
    return {
        key: evaluation.passed if isinstance(evaluation, dg.AssetCheckEvaluation) else None
        for key, evaluation in found.items()
    }


def stored_failure(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey
) -> dg.AssetCheckEvaluation | None:
    """The last stored outcome of a check, if that is a failure; None: it is none, or Dagster can't
    say."""
    try:
        from dagster._core.storage.asset_check_execution_record import (
            COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES as COMPLETED,
        )

        records = instance.event_log_storage.get_asset_check_execution_history(
            key, limit=1, status=COMPLETED
        )
        evaluation = records[0].evaluation if records else None
    except _GONE:
        return None
    return None if evaluation is None or evaluation.passed else evaluation


def newest_event(instance: dg.DagsterInstance) -> int:
    """The number of the newest event that is stored: later ones have higher numbers. 0: there is
    none, or Dagster can't say."""
    try:
        return instance.event_log_storage.get_maximum_record_id() or 0
    except _GONE:
        return 0
