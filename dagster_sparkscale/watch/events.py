"""What Dagster is told of a stream: an observation, what has changed of its checks, and progress.

An observation has the same keys every minute, so that Dagster plots each of them. A value that was
not measured is null and leaves a gap in the plot; it is never a zero.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.names import PREFIX
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.operations import asset_key, metadata
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.checks import dated, severity
from dagster_sparkscale.watch.memory import StreamMemory

MATERIALIZE_EVERY = 600.0
"""Seconds between two materializations that say data moved on. Freshness policies and `eager()`
see only materializations, and one every minute would be noise."""

Event = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation

_NOTHING_SEEN = Evaluation(window=0.0)


def observation_values(stream: Stream, assessment: Assessment) -> dict[str, Any]:
    """What an observation says, without the prefix. Rates are records/s, times milliseconds."""
    seen = assessment.seen or _NOTHING_SEEN
    looked = assessment.seen is not None
    return {
        "ratio": _rounded(seen.ratio),
        "overdue_ratio": _rounded(seen.overdue),
        "processing_ms": _rounded(seen.processing_ms),
        "scheduling_ms": _rounded(seen.scheduling_ms),
        "input_rate": _rounded(seen.input_rate),
        "processed_rate": _rounded(seen.processed_rate),
        "backlog_records": seen.backlog_records,
        "pending_batches": seen.pending_batches,
        "source_lag_s": _rounded(seen.lag),
        "source_shards": seen.shards,
        "completed_batches": seen.completed if looked else None,
        "failed_batches": seen.failed if looked else None,
        "executors_registered": seen.registered,
        "executors_requested": seen.requested,
        "executors_maximum": stream.bounds.maximum,
        "epoch": assessment.epoch,
        "state": assessment.state,
        "drift": "; ".join(assessment.drift) or None,
        "query": seen.query,
        "decision": str(assessment.decision),
        "reason": assessment.decision.reason,
    }


def told(
    stream: Stream, assessment: Assessment, memory: StreamMemory, log_tail: str, now: float
) -> Iterator[Event]:
    """What Dagster is told of an assessment. `memory` keeps what it has been told before."""
    yield dg.AssetObservation(
        asset_key=asset_key(stream), metadata=metadata(observation_values(stream, assessment))
    )
    yield from changed_checks(stream, assessment, memory, log_tail, now)
    yield from progress(stream, assessment, memory, now)


def changed_checks(
    stream: Stream, assessment: Assessment, memory: StreamMemory, log_tail: str, now: float
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluations of the health checks whose outcome is not the one stored last, or that failed by
    something new."""
    for health, finding in assessment.health.items():
        if finding.passed is None:
            continue
        outcome = "passed" if finding.passed else f"failed {finding.mark}".rstrip()
        if memory.checks.get(health.value) == outcome:
            continue
        memory.checks[health.value] = outcome
        yield dg.AssetCheckEvaluation(
            asset_key=asset_key(stream),
            check_name=health.value,
            passed=finding.passed,
            severity=severity(finding),
            description=dated(finding.text, "since", now),
            metadata={"log": log_tail} if log_tail and not finding.passed else {},
        )


def progress(
    stream: Stream, assessment: Assessment, memory: StreamMemory, now: float
) -> Iterator[dg.AssetMaterialization]:
    """At most every `MATERIALIZE_EVERY` seconds, and only if records were processed since."""
    seen = assessment.seen
    memory.advanced |= bool(seen and seen.input_rate)
    if not memory.advanced or 0 <= now - memory.materialized_at < MATERIALIZE_EVERY:
        return
    memory.materialized_at, memory.advanced = now, False
    yield dg.AssetMaterialization(
        asset_key=asset_key(stream),
        description="The stream has processed records.",
        metadata={PREFIX + "epoch": assessment.epoch},
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
