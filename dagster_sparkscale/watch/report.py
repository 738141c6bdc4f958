"""The observation of a stream: the same keys every minute, so that Dagster plots each of them.

A value that was not measured is null and leaves a gap in the plot; it is never a zero.
"""

from typing import Any

import dagster as dg

from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.operations import metadata
from dagster_sparkscale.watch.assess import Assessment

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
        "query": seen.query,
        "decision": str(assessment.decision),
        "reason": assessment.decision.reason,
    }


def observation(stream: Stream, key: dg.AssetKey, assessment: Assessment) -> dg.AssetObservation:
    return dg.AssetObservation(
        asset_key=key, metadata=metadata(observation_values(stream, assessment))
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
