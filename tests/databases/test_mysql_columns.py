"""What MySQL's columns hold of what Dagster stores for a thousand streams: as Dagster makes them,
and as docs/production.md widens them."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from sqlalchemy.exc import DataError

from dagster_sparkscale import RatioPolicy, StandaloneCluster, StructuredStream, build_defs
from dev.databases.mysql import MySQL
from tests.databases.conftest import home_of, started

pytestmark = pytest.mark.databases

STREAMS = 1000
TEXT = 65_535
"""Bytes of a TEXT or BLOB."""
PAGE = Path(__file__).parents[2] / "docs" / "production.md"


def widenings() -> list[str]:
    """The statements that the page tells people to run."""
    return re.findall(r"^ALTER TABLE .*;$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySQL]:
    with started(MySQL, tmp_path_factory.mktemp("db") / "server") as server:
        assert isinstance(server, MySQL)
        yield server


@pytest.fixture
def instance(mysql: MySQL, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(home_of(mysql, tmp_path / "home"))) as made:
        yield made


def origin() -> RemoteInstigatorOrigin:
    target = LoadableTargetOrigin(python_file="/srv/dagster/our_streams/definitions.py")
    location = InProcessCodeLocationOrigin(target, location_name="our_streams")
    repository = RemoteRepositoryOrigin(location, "__repository__")
    return RemoteInstigatorOrigin(repository, "autoscaler")


def store_tick(instance: dg.DagsterInstance, cursor: str, requests: int = 0) -> None:
    """Store a tick and the sensor's state as the daemon does, who keeps each request whole until
    its run is made."""
    now = time.time()
    asked = [
        dg.RunRequest(
            run_key=f"clicks_of_region_{number}-restart-{now}",
            job_name="restart",
            run_config={"ops": {"restart": {"config": {"stream": f"clicks_of_region_{number}"}}}},
            tags={"dagster-sparkscale/stream": f"clicks_of_region_{number}"},
        )
        for number in range(requests)
    ]
    where = origin()
    made = instance.create_tick(
        TickData(
            where.get_id(),
            "autoscaler",
            InstigatorType.SENSOR,
            TickStatus.STARTED,
            now,
            selector_id=where.get_selector().get_id(),
        )
    )
    ids = [f"{number:036}" for number in range(requests)]
    instance.update_tick(made.with_run_requests(asked, reserved_run_ids=ids, cursor=cursor))
    data = SensorInstigatorData(last_tick_timestamp=now, cursor=cursor, min_interval=60)
    state = InstigatorState(where, InstigatorType.SENSOR, InstigatorStatus.RUNNING, data)
    if instance.get_instigator_state(where.get_id(), where.get_selector().get_id()):
        instance.update_instigator_state(state)
    else:
        instance.add_instigator_state(state)
    stored = instance.get_instigator_state(where.get_id(), where.get_selector().get_id())
    assert stored is not None and stored.instigator_data == data


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> dg.JobDefinition:
    """That of all assets, of which each materialization stores a snapshot."""
    cluster = StandaloneCluster(
        master="spark://h:7077", state_dir=str(tmp_path_factory.mktemp("state"))
    )
    streams = [
        StructuredStream(
            name=f"clicks_of_region_{number}",
            program=__file__,
            batch_interval="10s",
            autoscale=RatioPolicy(max_executors=8),
        )
        for number in range(STREAMS)
    ]
    return build_defs(streams, cluster).resolve_implicit_global_asset_job_def()


def materialize(instance: dg.DagsterInstance, job: dg.JobDefinition) -> None:
    instance.create_run_for_job(job, asset_selection={dg.AssetKey("clicks_of_region_0")})


def test_as_dagster_makes_them_a_cursor_and_a_few_requests_fit(
    instance: dg.DagsterInstance, job: dg.JobDefinition
) -> None:
    store_tick(instance, "x" * 62_000)
    store_tick(instance, "x" * 32_000, requests=30)
    with pytest.raises(DataError, match="Data too long for column 'tick_body'"):
        store_tick(instance, "x" * (TEXT + 1))
    with pytest.raises(DataError, match="Data too long for column 'tick_body'"):
        store_tick(instance, "x" * 62_000, requests=10)
    with pytest.raises(DataError, match="Data too long for column 'snapshot_body'"):
        materialize(instance, job)


def test_as_the_page_widens_them_a_thousand_streams_fit(
    instance: dg.DagsterInstance, job: dg.JobDefinition
) -> None:
    with instance.run_storage.connect() as connection:  # type: ignore[attr-defined]
        for statement in widenings():
            connection.execute(sqlalchemy.text(statement.rstrip(";")))
    store_tick(instance, "x" * (TEXT + 1), requests=STREAMS)
    materialize(instance, job)
    # Dagster goes on with a schema that it has not made: none of its migrations is due.
    instance.upgrade()
    store_tick(instance, "x" * (TEXT + 1), requests=STREAMS)
