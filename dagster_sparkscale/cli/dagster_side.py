"""Checks of Dagster itself: its home, daemon, settings and sensor, without which no stream is
watched."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_sparkscale.cli.locations import Deployed
from dagster_sparkscale.cli.private_dagster import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    QueuedRunCoordinator,
    RepositorySelector,
    SensorInstigatorData,
    TickStatus,
)
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.durations import span
from dagster_sparkscale.names import scoped
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.memory import Memory

LATE = 300.0
"""Seconds without a tick after which a sensor is not at work; one comes every minute."""
SILENT = 120.0
"""Seconds without a heartbeat after which the process of the daemons is gone: each of its threads
writes one every 30. Of a single thread Dagster says so after half an hour only, as it may be busy.
"""
_SAMPLE = "see the sample dagster.yaml"
_RUN_IT = (
    "run `dagster-daemon run` with this DAGSTER_HOME (`dg dev` has one): without it no stream is "
    "watched, and no run of the UI begins"
)


def home() -> Condition:
    """DAGSTER_HOME as the environment has it."""
    home = os.environ.get("DAGSTER_HOME")
    if not home:
        return Condition(
            "DAGSTER_HOME",
            "not set: Dagster would forget its runs, and a relative state folder depends on where "
            "it is started",
            "`export DAGSTER_HOME=/a/folder`, the same for all of Dagster and for this command",
        )
    folder = Path(home).expanduser()
    if not folder.is_absolute():
        return Condition("DAGSTER_HOME", f"{home}: is relative", "name it by its absolute path")
    if not folder.is_dir():
        return Condition("DAGSTER_HOME", f"{home}: is no folder", f"`mkdir -p {home}`")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Condition(
            "DAGSTER_HOME", f"{home}: can't be written", "call this as the user that runs Dagster"
        )
    return Condition("DAGSTER_HOME", home)


def of_sensor(
    instance: dg.DagsterInstance, deployed: Deployed, now: float, *, at_once: bool = True
) -> Condition:
    """The autoscaler of a cluster: whether it is switched on, and ticks.

    Args:
        now: seconds since the epoch.
        at_once: whether it is wrong by one tick that failed, and not only when none of the last
            `LATE` seconds was in order: one fails each time its code location is loaded anew.
    """
    name, state = _sensor(instance, deployed)
    declared_on = (
        deployed.repository.get_sensor_def(name).default_status is dg.DefaultSensorStatus.RUNNING
    )
    by_code = state is None or state.status is InstigatorStatus.DECLARED_IN_CODE
    if not (declared_on if by_code else state is not None and state.is_running):
        return Condition(
            name,
            "switched off: nothing is watched, scaled or restarted",
            f"switch it on in the UI, or `dagster sensor start {name}`",
        )
    if state is None:
        return Condition(
            name,
            f"has never ticked in code location {deployed.location!r}",
            "start Dagster with this code location; where Dagster calls it otherwise, load it here "
            "by the same workspace file",
        )
    return _ticking(instance, name, state, now, at_once)


def _sensor(instance: dg.DagsterInstance, deployed: Deployed) -> tuple[str, InstigatorState | None]:
    """The name of a cluster's autoscaler, and what is remembered of it; None: nothing yet."""
    name = scoped("autoscaler", deployed.streams.cluster_key)
    selector = RepositorySelector(
        location_name=deployed.location, repository_name=deployed.repository.name
    )
    states = instance.all_instigator_state(
        repository_selector_id=selector.selector_id, instigator_type=InstigatorType.SENSOR
    )
    return name, next((each for each in states if each.instigator_name == name), None)


def last_tick(instance: dg.DagsterInstance, deployed: Deployed) -> float | None:
    """When the autoscaler of a cluster last ticked, seconds since the epoch; None: it has not."""
    _, state = _sensor(instance, deployed)
    data = None if state is None else state.instigator_data
    return data.last_tick_timestamp if isinstance(data, SensorInstigatorData) else None


def pending_minutes(
    instance: dg.DagsterInstance, deployed: Deployed
) -> dict[str, Sequence[Minute]]:
    """The minutes that the autoscaler of a cluster has seen and not told Dagster of, by stream."""
    _, state = _sensor(instance, deployed)
    data = None if state is None else state.instigator_data
    if not isinstance(data, SensorInstigatorData):
        return {}
    return {name: each.minutes for name, each in Memory.load(data.cursor).streams.items()}


def _ticking(
    instance: dg.DagsterInstance, name: str, state: InstigatorState, now: float, at_once: bool
) -> Condition:
    key = state.instigator_origin_id, state.selector_id
    ticks = instance.get_ticks(*key, limit=1)
    failed = bool(ticks) and ticks[0].status is TickStatus.FAILURE
    if failed and not at_once:
        in_order = [TickStatus.SKIPPED, TickStatus.SUCCESS]
        failed = not instance.get_ticks(*key, after=now - LATE, limit=1, statuses=in_order)
    if failed:
        error = ticks[0].error
        why = error.message.strip() if error else "no reason is known"
        return Condition(name, f"its last tick failed: {why}", "see the tick in the UI")
    data = state.instigator_data
    last = data.last_tick_timestamp if isinstance(data, SensorInstigatorData) else None
    if last is None:
        return Condition(name, "switched on; has not ticked yet")
    if now - last > LATE:
        return Condition(
            name,
            f"last ticked {span(now - last)} ago",
            "see that the daemon runs and the code location loads",
        )
    return Condition(name, f"ticked {span(max(0.0, now - last))} ago")


def of_daemon(
    instance: dg.DagsterInstance, now: float, of: Sequence[str] | None = None
) -> Condition:
    """The process of Dagster's daemons: whether it runs, and when it was last heard.

    Args:
        now: seconds since the epoch.
        of: the types of daemons that matter while the process runs; None: all that it should have.
    """
    statuses = instance.get_daemon_statuses()
    beats = [each.last_heartbeat for each in statuses.values() if each.last_heartbeat is not None]
    if not beats:
        return Condition("daemon", "has never run with this DAGSTER_HOME", _RUN_IT)
    quiet = max(0.0, now - max(beat.timestamp for beat in beats))
    if quiet > SILENT:
        text = f"gone: its last heartbeat was {span(quiet)} ago, and one comes every 30 s"
        return Condition("daemon", text, _RUN_IT)
    faults = []
    for kind, status in statuses.items():
        beat = status.last_heartbeat
        if status.healthy or (of is not None and kind not in of):
            continue
        if beat is None:
            faults.append(f"{kind} has never run")
        else:
            faults.append(f"{kind} was last heard {span(now - beat.timestamp)} ago")
    if faults:
        return Condition("daemon", "; ".join(faults), _RUN_IT)
    return Condition("daemon", f"alive, last heard {span(quiet)} ago")


def unwatched(instance: dg.DagsterInstance, deployed: Deployed, now: float) -> Condition | None:
    """Why nobody watches the streams of a cluster; None: its autoscaler ticks.

    Args:
        now: seconds since the epoch.
    """
    daemon = of_daemon(instance, now, of=["SENSOR"])
    why = daemon if daemon.wrong else of_sensor(instance, deployed, now, at_once=False)
    return why if why.wrong else None


def of_settings(instance: dg.DagsterInstance) -> Iterator[Condition]:
    """What would be better otherwise in dagster.yaml."""
    queue = instance.run_coordinator
    if isinstance(queue, QueuedRunCoordinator) and queue.dequeue_interval_seconds > 1:
        yield _better(
            "run queue",
            f"looked at every {queue.dequeue_interval_seconds} s: a rescale waits that long",
            "dequeue_interval_seconds: 1 in run_queue",
        )
    if not _of(instance, "sensors").get("use_threads"):
        yield _better(
            "sensors",
            "evaluated one after the other: a slow one holds up the autoscaler",
            "use_threads: true in sensors",
        )
    if "sensor" not in _of(instance, "retention"):
        yield _better(
            "retention",
            "ticks that asked for a run are kept for ever",
            "purge_after_days in retention.sensor",
        )
    looks = instance.run_launcher.supports_check_run_worker_health
    limit = instance.run_monitoring_max_runtime_seconds
    if not instance.run_monitoring_enabled or not (looks or limit):
        what = "without a limit" if instance.run_monitoring_enabled else "off"
        also = "" if looks else " and max_runtime_seconds, above the longest run,"
        yield _better(
            "run monitoring",
            f'{what}: a run whose process died stays "started" for ever',
            f"enabled: true{also} in run_monitoring",
        )


def _of(instance: dg.DagsterInstance, key: str) -> Any:
    return instance.get_settings(key) or {}


def _better(subject: str, text: str, cure: str) -> Condition:
    return Condition(subject, text, f"{cure}; {_SAMPLE}", urgent=False)
