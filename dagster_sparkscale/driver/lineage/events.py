"""OpenLineage's run events of a driver. Pure.

Written by OpenLineage's schema 2-0-2 (openlineage.io/spec/2-0-2/OpenLineage.json) and its facets. A
run is one driver: its id follows from the stream's record and the epoch, so that whoever tells of
it, the driver or Dagster after its death, tells of the same run.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from .datasets import Dataset
from .plan import LineagePlan

PRODUCER = "pkg:pypi/dagster-sparkscale"
"""Names this library, as a package URL: it names no host. `@` and the release follow."""
SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
START, RUNNING, COMPLETE, FAIL, ABORT = "START", "RUNNING", "COMPLETE", "FAIL", "ABORT"

_FACETS = "https://openlineage.io/spec/facets"
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, f"{PRODUCER}#drivers")


def run_id(record: str, epoch: int) -> str:
    """The id of the run of one driver.

    Args:
        record: the id of its stream's record.
    """
    return str(uuid.uuid5(_RUNS, f"{record}/{epoch}"))


def run_event(
    plan: LineagePlan,
    run: str,
    kind: str,
    at: float,
    *,
    inputs: Sequence[Dataset] = (),
    outputs: Sequence[Dataset] = (),
    spark: str | None = None,
    error: str | None = None,
) -> dict[str, Any]:
    """The event of a run, as JSON.

    Args:
        run: its id.
        kind: `START`, `RUNNING`, `COMPLETE`, `FAIL` or `ABORT`.
        at: seconds since the epoch.
        spark: the release of Spark; None: not known.
        error: what it failed of, for people; None: of nothing, or that is not known.
    """
    producer = f"{PRODUCER}@{plan.version}" if plan.version else PRODUCER

    def facet(name: str, /, **fields: Any) -> dict[str, Any]:
        schema = f"{_FACETS}/{name}.json#/$defs/{name.rpartition('/')[2]}"
        return {"_producer": producer, "_schemaURL": schema, **fields}

    facets: dict[str, Any] = {}
    if spark is not None:
        facets["processing_engine"] = facet(
            "1-1-1/ProcessingEngineRunFacet",
            version=spark,
            name="spark",
            openlineageAdapterVersion=plan.version,
        )
    if error is not None:
        facets["errorMessage"] = facet(
            "1-0-1/ErrorMessageRunFacet", message=error, programmingLanguage="PYTHON"
        )
    job_type = facet(
        "2-0-4/JobTypeJobFacet",
        processingType="STREAMING",
        integration="SPARK",
        jobType="APPLICATION",
        emissionPattern={
            "eventTrigger": "PERIODIC",
            "eventContentMode": "ACCUMULATIVE",
            "windowDuration": max(1, round(plan.every)),
        },
    )
    return {
        "eventType": kind,
        "eventTime": _moment(at),
        "run": {"runId": run, "facets": facets},
        "job": {"namespace": plan.namespace, "name": plan.job, "facets": {"jobType": job_type}},
        "inputs": [each._asdict() for each in _joined(plan.inputs, inputs)],
        "outputs": [each._asdict() for each in _joined(plan.outputs, outputs)],
        "producer": producer,
        "schemaURL": SCHEMA,
    }


def _moment(at: float) -> str:
    utc = timezone.utc  # noqa: UP017, as a driver may run on Python 3.10
    return datetime.fromtimestamp(at, utc).isoformat(timespec="milliseconds")


def _joined(first: Sequence[Dataset], second: Sequence[Dataset]) -> list[Dataset]:
    return list(dict.fromkeys([*first, *second]))
