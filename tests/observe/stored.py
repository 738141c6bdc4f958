"""Events with minutes, stored in Dagster's event log as the sensor has them stored."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.test_utils import freeze_time

from dagster_sparkscale.markdown import hidden
from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.observe.minutes import Minute, stored


def store(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    minutes: Sequence[Minute],
    kind: type = dg.AssetObservation,
    at: float | None = None,
) -> None:
    """Store an event with these minutes, a second after the last of them, or `at`."""
    with freeze_time(minutes[-1].at + 1 if at is None else at):
        instance.report_runless_asset_event(
            kind(
                asset_key=key, metadata={MINUTES: dg.MetadataValue.md(hidden("", stored(minutes)))}
            )
        )
