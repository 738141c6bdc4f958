"""Limits are retuned by tracked runs on a real cluster, and put back where they do harm."""

import time
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from dagster_sparkscale import ClusterManager, Retune, SourceLimits, StructuredStream
from dagster_sparkscale.observe.minutes import Minute
from tests.backpressure.histories import BEGAN, minutes
from tests.e2e.deployment import PROGRAMS, Deployment, deployed, failure, told
from tests.observe.stored import store
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

HOURS = 7200.0
KNOB = "clicks.maxOffsetsPerTrigger"
UNWANTED = 13
"""As the program has it: with that it fails."""


def optioned(folder: Path, name: str = "optioned") -> StructuredStream:
    return StructuredStream(
        name=name,
        program=str(PROGRAMS / "optioned.py"),
        batch_interval="1s",
        executor_memory="512m",
        driver_memory="512m",
        checkpoint_location=str(folder / "checkpoint"),
        # Two executors, as the history has; without a bound Standalone would launch all it can.
        spark_conf={"spark.cores.max": "2"},
        limits={"clicks": SourceLimits(max_offsets_per_trigger=5000)},
        retune=Retune(verify_after=HOURS),
    )


def reads(d: Deployment, rows: int) -> None:
    """A batch of so many rows is through."""

    def has() -> bool:
        status = d.status()
        return bool(status and any(batch.records == rows for batch in status.batches))

    wait_for(f"a batch of {rows} rows", has, about=lambda: d.cluster.logs(d.driver(), 40))


def seen(d: Deployment, count: int, ago: float, **fields: object) -> None:
    """Have these minutes in the event log, the last of them so long ago."""
    shift = int(time.time() - ago) - BEGAN - 60 * count
    plain = {"processing_ms": 700, "input_rate": 700, "completed": 60}
    whole: list[Minute] = minutes(count, **{**plain, **fields})
    shifted = [replace(each, at=each.at + shift) for each in whole]
    store(d.instance, dg.AssetKey(d.stream.name), shifted)


def hours_pass(d: Deployment) -> None:
    """As if all that is remembered had happened two hours before."""
    with d.cluster.lease(d.stream.name, "the test") as lease:
        record = lease.record
        tuning = record.tuning
        assert tuning is not None and tuning.verify_at is not None
        older = tuple(replace(each, at=each.at - HOURS) for each in record.history)
        verified = replace(tuning, at=tuning.at - HOURS, verify_at=tuning.verify_at - HOURS)
        lease.write(replace(record, history=older, tuning=verified))


def test_limits_are_reported_applied_and_put_back(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    with deployed(local_cluster, optioned(tmp_path), tmp_path) as d:
        retuned(d)
        put_back_as_worse(d)


@pytest.mark.clusters
def test_limits_with_which_the_program_fails_are_put_back_and_the_others_verified_all_the_same(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    with deployed(local_cluster, optioned(tmp_path, "unwanted"), tmp_path) as d:
        retuned(d)
        why = failure(d.run("retune_backpressure", values={KNOB: UNWANTED}))
        assert "those of before are in force again" in why
        assert f"{UNWANTED} rows are not wanted" in why
        assert d.driver().epoch == 4
        reads(d, 900)
        # What is to be verified was put back with all else.
        put_back_as_worse(d)


def retuned(d: Deployment) -> None:
    """A stream that has 900 rows a batch by a retune, and 5000 by its declaration."""
    told(d.materialize())
    reads(d, 5000)
    assert "not enough history" in d_line(d, dry_run=True)
    seen(d, 480, ago=HOURS)

    plan = told(d.run("retune_backpressure", dry_run=True))
    [one] = plan["changes"]
    assert (one["limit"], one["before"], one["after"]) == (KNOB, 5000, 900)
    assert d.driver().epoch == 1, "nothing was restarted"

    story = told(d.run("retune_backpressure"))
    assert (story["ending"], story["epoch"]) == ("restarted", 2)
    reads(d, 900)


def put_back_as_worse(d: Deployment) -> None:
    """The verification finds that batches take longer than before."""
    epoch = d.driver().epoch
    hours_pass(d)
    seen(d, 100, ago=0, epoch=epoch, ratio=1.4)
    story = told(d.run("retune_backpressure", verify=True))
    assert (story["ending"], story["verdict"], story["epoch"]) == ("put back", "worse", epoch + 1)
    reads(d, 5000)


def d_line(d: Deployment, **config: object) -> str:
    """What a run of it comes to, in a line."""
    result = d.run("retune_backpressure", **config)
    assert result.success
    (event,) = result.get_asset_observation_events()
    return event.asset_observation_data.asset_observation.description or ""
