"""Of two code locations that share what is remembered and declare one name, one is refused."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.owners import Anothers
from dagster_sparkscale.operations import Streams
from tests.fakes import structured
from tests.in_memory.cluster import World
from tests.lifecycle.reconciling import start, submissions
from tests.watch.deployment import Deployment, failure_of, overload

OURS, THEIRS = "web/spark_cluster", "batch/spark_cluster"
CLICKS = structured(program="jobs/clicks.py", checkpoint_location="s3a://web/clicks")
OTHER = structured(program="jobs/other.py", checkpoint_location="s3a://batch/clicks")
WHOSE = (
    "'clicks' is a stream of code location 'web', cluster 'spark_cluster', which declares it with "
)


@contextmanager
def as_location(owner: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Streams, "owner", lambda *_: owner)
        yield


@pytest.fixture
def world() -> World:
    """Of which `web` has started `clicks`."""
    made = World()
    start(made, CLICKS, owner=OURS)
    return made


@pytest.fixture
def theirs(world: World) -> Deployment:
    return Deployment([OTHER], world)


def record(world: World):
    return world.records["clicks"]


def test_a_start_neither_attaches_to_anothers_driver_nor_takes_its_stream(world: World) -> None:
    for restart in (False, True):
        with pytest.raises(Anothers, match=f"{WHOSE}program jobs/clicks.py, checkpoint_location"):
            start(world, OTHER, owner=THEIRS, restart=restart)
    assert record(world).owner == OURS and submissions(world) == ["submit clicks 1"]
    assert world.cluster.find("clicks").state is DriverState.RUNNING


def test_who_says_so_takes_it_over_and_the_other_is_refused_from_then_on(
    world: World, theirs: Deployment
) -> None:
    with as_location(THEIRS):
        job = theirs.defs.resolve_implicit_global_asset_job_def()
        for whoever in (False, True):
            config = {"ops": {"clicks": {"config": {"whoever_declares_it": whoever}}}}
            result = job.execute_in_process(
                run_config=config, instance=theirs.instance, raise_on_error=False
            )
            assert result.success is whoever
    assert record(world).owner == THEIRS
    with pytest.raises(Anothers, match="is a stream of code location 'batch'"):
        start(world, CLICKS, owner=OURS, restart=True)


@pytest.mark.parametrize(
    ("job", "config"),
    [
        ("stop", {}),
        ("restart", {}),
        ("restart", {"failed_epoch": 1}),
        ("rescale", {"target": 2}),
        ("set_limits", {"rate": 5.0}),
        ("reconfigure_state", {}),
    ],
)
def test_no_operation_touches_anothers_stream(
    world: World, theirs: Deployment, job: str, config: dict[str, object]
) -> None:
    calls = list(world.calls)
    with as_location(THEIRS):
        said = failure_of(theirs.by_hand(job, stream="clicks", **config))
    assert said.startswith(WHOSE) and "materialize its asset with whoever_declares_it: true" in said
    assert world.calls == calls and record(world).owner == OURS


def test_who_says_so_stops_anothers_stream(world: World, theirs: Deployment) -> None:
    with as_location(THEIRS):
        assert theirs.by_hand("stop", stream="clicks", whoever_declares_it=True).success
    assert world.cluster.find("clicks").state is DriverState.STOPPED
    assert record(world).owner == OURS


def test_the_sensor_decides_nothing_about_anothers_stream() -> None:
    ours, other = (
        structured(program=program, autoscale=RatioPolicy(max_executors=10))
        for program in (CLICKS.program, "jobs/other.py")
    )
    world = World()
    overload(Deployment([ours], world), ours)
    start(world, ours, owner=OURS)  # attaches to it
    theirs = Deployment([other], world)
    with as_location(OURS):
        (request,) = Deployment([ours], world).tick().requests
        assert request.job_name == "rescale"
    with as_location(THEIRS):
        tick = theirs.tick()
    assert tick.requests == []
    assert WHOSE in tick.data.skip_message


def test_a_code_location_of_another_name_that_declares_the_same_goes_on(world: World) -> None:
    start(world, CLICKS, owner="renamed/spark_cluster")
    assert record(world).owner == "renamed/spark_cluster"
    # And one that declares something else by now is no other.
    start(world, OTHER, owner="renamed/spark_cluster")
