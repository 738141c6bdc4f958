"""The health checks of a stream in Dagster: run by hand here, and by the sensor on every change.

What can't be told is no outcome. A check that is run by hand and can't be told is skipped, as
Dagster calls it: it is neither passed nor failed, and what was stored before stands.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from dagster_sparkscale.capability import Capabilities
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.findings import DESCRIPTIONS, Finding, Health
from dagster_sparkscale.operations import Streams, asset_key
from dagster_sparkscale.private_dagster import code_location_of, stored_failure
from dagster_sparkscale.watch.assess import assess
from dagster_sparkscale.watch.sighting import look, of_another


def dated(text: str, how: str, at: float) -> str:
    """What a check says, and when: it stands on Dagster's pages for as long as nothing else is
    stored.

    Args:
        how: `since`, of an outcome that is stored when it changes; `seen`, of a look by hand.
        at: seconds since the epoch.
    """
    return f"{text} ({how} {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC)"


def severity(finding: Finding) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if finding.urgent else dg.AssetCheckSeverity.WARN


def health_checks(
    streams: Streams, stream: Stream, capabilities: Capabilities
) -> dg.AssetChecksDefinition:
    """The checks of `stream`, as one step that asks its agent once."""
    key = asset_key(stream)

    @dg.multi_asset_check(
        name=f"{key.to_python_identifier()}_health",
        specs=[
            dg.AssetCheckSpec(name=health.value, asset=key, description=DESCRIPTIONS[health])
            for health in Health
        ],
        required_resource_keys={streams.cluster_key},
        can_subset=True,  # else Dagster insists on an outcome of every check
    )
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        asked_for = {check.name for check in context.selected_asset_check_keys}
        cluster = streams.cluster(context)
        owner = streams.owner(code_location_of(context.run))
        sighting = of_another(look(cluster, stream, timeout=10.0), stream, owner)
        now = time.time()
        assessment = assess(stream, sighting, capabilities=capabilities, now=now)
        for health, finding in assessment.health.items():
            if health.value not in asked_for:
                continue
            if finding.passed is None:
                context.log.info(f"{health.value}: not judged: {finding.text}")
                failure = stored_failure(context.instance, dg.AssetCheckKey(key, health.value))
                if failure is not None:
                    yield _again(failure, dated(finding.text, "seen", now))
                continue
            yield dg.AssetCheckResult(
                asset_key=key,
                check_name=health.value,
                passed=finding.passed,
                severity=severity(finding),
                description=dated(finding.text, "seen", now),
                metadata={"log": sighting.log_tail} if sighting.log_tail else {},
            )

    return check


def _again(failure: dg.AssetCheckEvaluation, now: str) -> dg.AssetCheckResult:
    """A failure that stands, for Dagster's pages to go on showing it."""
    return dg.AssetCheckResult(
        asset_key=failure.asset_key,
        check_name=failure.check_name,
        passed=False,
        severity=failure.severity,
        description=failure.description,
        metadata={**failure.metadata, "as stored before; now": now},
    )
