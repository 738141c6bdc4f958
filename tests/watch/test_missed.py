"""A state folder that is not mounted looks like one in which nothing was ever started."""

from dataclasses import replace

import dagster as dg
import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.operations import Streams
from tests.watch.deployment import Deployment, overload


def unmount(deployed: Deployment) -> None:
    deployed.world.streams.clear()
    deployed.world.records.clear()


def test_a_driver_that_was_seen_before_is_not_taken_for_never_started(
    deployed: Deployment,
) -> None:
    overload(deployed, batch_seconds=5)
    deployed.tick()
    before = dict(deployed.world.streams), dict(deployed.world.records)
    unmount(deployed)
    for told in (True, False):
        tick = deployed.tick()
        assert tick.seen().state == "unknown"
        assert tick.decided().startswith(
            "hold: nothing is remembered of it any more, though its driver 1 was seen before, and "
            "may run: is the state folder mounted?"
        )
        assert tick.checks() == ({"running": False} if told else {})
        assert bool(tick.of(dg.AssetMaterialization)) is told  # for Overview to show it
    deployed.world.streams, deployed.world.records = before
    assert deployed.tick().checks() == {"running": True}


@pytest.mark.parametrize(
    ("ended", "state"), [(DriverState.STOPPED, "not started"), (DriverState.FAILED, "unknown")]
)
def test_one_that_was_stopped_is_not_missed(
    deployed: Deployment, ended: DriverState, state: str
) -> None:
    overload(deployed)
    deployed.tick()
    deployed.world.end("clicks", ended)
    deployed.tick()
    unmount(deployed)
    assert deployed.tick().seen().state == state


def test_what_was_emptied_on_purpose_is_started_anew(deployed: Deployment) -> None:
    overload(deployed)
    deployed.tick()
    unmount(deployed)
    assert deployed.tick().seen().state == "unknown"
    overload(deployed)
    assert deployed.tick().seen().state == "running"


def test_the_driver_of_anothers_stream_is_none_that_was_there_before(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deployments share a namespace and a name. That the other one goes is no loss here."""
    overload(deployed)
    record = deployed.world.records["clicks"]
    others = {"owner": "web/spark_cluster", "identity": {"program": "jobs/other.py"}}
    deployed.world.records["clicks"] = replace(record, **others)
    monkeypatch.setattr(Streams, "owner", lambda *_: "batch/spark_cluster")
    tick = deployed.tick()
    assert "is a stream of code location 'web'" in tick.decided() and tick.requests == []
    unmount(deployed)
    assert deployed.tick().seen().state == "not started"
