"""The health checks of a stream in Dagster: run by hand here, and by the sensor on every change."""

import time
from collections.abc import Iterator

import dagster as dg

from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.operations import Streams, asset_key
from dagster_sparkscale.watch.assess import assess
from dagster_sparkscale.watch.health import DESCRIPTIONS, Finding, Health
from dagster_sparkscale.watch.sighting import look


def severity(finding: Finding) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if finding.urgent else dg.AssetCheckSeverity.WARN


def health_checks(streams: Streams, stream: Stream) -> dg.AssetChecksDefinition:
    """The checks of `stream`, as one step that asks its agent once."""
    key = asset_key(stream)

    @dg.multi_asset_check(
        name=f"{key.to_python_identifier()}_health",
        specs=[
            dg.AssetCheckSpec(name=health.value, asset=key, description=DESCRIPTIONS[health])
            for health in Health
        ],
        required_resource_keys={streams.cluster_key},
        can_subset=False,
    )
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        cluster = streams.cluster(context)
        sighting = look(cluster, stream, timeout=10.0)
        assessment = assess(stream, sighting, now=time.time())
        runs = assessment.health[Health.RUNNING].passed
        for health, finding in assessment.health.items():
            # Right after a start nothing is measured yet, and nothing is wrong either. Of a stream
            # that does not run, nothing can be told that would be good news.
            passed = runs if finding.passed is None else finding.passed
            yield dg.AssetCheckResult(
                asset_key=key,
                check_name=health.value,
                passed=bool(passed),
                severity=severity(finding),
                description=finding.text,
                metadata={"log": sighting.log_tail} if sighting.log_tail else {},
            )

    return check
