"""Dagster's daemon as its storage remembers it: heartbeats, and ticks of the autoscaler."""

import time

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._daemon.types import DaemonHeartbeat
from dagster_shared.error import SerializableErrorInfo


def beat(ago: float = 1.0, **others: float) -> None:
    """A heartbeat of each daemon so many seconds ago; of some, by their names, another time."""
    with dg.DagsterInstance.get() as instance:
        for kind in instance.get_required_daemon_types():
            at = time.time() - others.get(kind, ago)
            instance.add_daemon_heartbeat(DaemonHeartbeat(at, kind, "daemon", []))


def state(
    status: InstigatorStatus, ago: float, sensor: str = "autoscaler", cursor: str | None = None
) -> InstigatorState:
    pointer = LoadableTargetOrigin(python_file="definitions.py")
    location = ManagedGrpcPythonEnvCodeLocationOrigin(pointer, "definitions.py")
    repository = RemoteRepositoryOrigin(location, "__repository__")
    data = SensorInstigatorData(last_tick_timestamp=time.time() - ago, cursor=cursor)
    origin = repository.get_instigator_origin(sensor)
    return InstigatorState(origin, InstigatorType.SENSOR, status, data)


def tick(
    status: InstigatorStatus = InstigatorStatus.DECLARED_IN_CODE,
    ago: float = 20.0,
    error: str | None = None,
    sensor: str = "autoscaler",
    cursor: str | None = None,
) -> None:
    """As the daemon remembers a sensor that ticked, and whoever switched it on or off."""
    remembered = state(status, ago, sensor, cursor)
    with dg.DagsterInstance.get() as instance:
        if instance.get_instigator_state(remembered.instigator_origin_id, remembered.selector_id):
            instance.update_instigator_state(remembered)
        else:
            instance.add_instigator_state(remembered)
        instance.create_tick(
            TickData(
                remembered.instigator_origin_id,
                sensor,
                InstigatorType.SENSOR,
                TickStatus.FAILURE if error else TickStatus.SKIPPED,
                time.time() - ago,
                selector_id=remembered.selector_id,
                error=SerializableErrorInfo(error, [], None) if error else None,
            )
        )
