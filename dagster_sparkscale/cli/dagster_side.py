"""Checks of Dagster itself: its home, daemon, settings and sensor, without which no stream is
watched."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from dagster_sparkscale.cli.locations import Deployed
from dagster_sparkscale.cli.private_dagster import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    QueuedRunCoordinator,
    RepositorySelector,
    SensorInstigatorData,
    TickStatus,
    hours_from_utc,
)
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.durations import span
from dagster_sparkscale.names import is_autoscaler
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.fleet.events import fleet_key
from dagster_sparkscale.watch.memory import Memory, StreamMemory
from dagster_sparkscale.watch.shards import spread
from dagster_sparkscale.watch.spills import Spills

LATE = 300.0
"""Seconds without a tick after which a sensor is not at work; one comes every minute."""
SILENT = 120.0
"""Seconds without a heartbeat after which the process of the daemons is gone: each of its threads
writes one every 30. Of a single thread Dagster says so after half an hour only, as it may be busy.
"""
LEAST_THREADS = 5
"""Threads for sensors where dagster.yaml does not say how many, on a machine with one processor."""
_BY_MACHINE = f"{LEAST_THREADS} threads or more, by the processors of the daemon's machine"
CODE_SERVER_WORKERS = ("DAGSTER_GRPC_MAX_WORKERS", "DAGSTER_CODE_SERVER_MAX_WORKERS")
"""The environment variables that say how many calls a code server answers at a time; without them
as many as its machine has processors, and four. The second is of the process that `dagster
code-server start` puts before it, which hands calls on: there it takes both."""
SPARE_WORKERS = 2
"""How many of those answer what is asked beside the ticks, as whether the code server lives."""
_IN_ORDER = [TickStatus.SKIPPED, TickStatus.SUCCESS]
_SAMPLE = "see the sample dagster.yaml"
_RUN_IT = (
    "run `dagster-daemon run` with this DAGSTER_HOME and the same -f, -m or -w (`dg dev` has one): "
    "without it no stream is watched, and no run of the UI begins"
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
    cure = "call this as the user that runs Dagster"
    if not os.access(folder, os.R_OK | os.X_OK):
        return Condition("DAGSTER_HOME", f"{home}: can't be read", cure)
    if not os.access(folder, os.W_OK) and not _stored_elsewhere(folder):
        return Condition("DAGSTER_HOME", f"{home}: can't be written", cure)
    return Condition("DAGSTER_HOME", home)


def _stored_elsewhere(home: Path) -> bool:
    """Whether Dagster keeps runs and events elsewhere than in its home: a ConfigMap of Kubernetes,
    which is what its chart makes the home of, can't be written by anybody."""
    try:
        settings = yaml.safe_load((home / "dagster.yaml").read_bytes())
    except (OSError, yaml.YAMLError):
        return False
    return isinstance(settings, dict) and not {"storage", "event_log_storage"}.isdisjoint(settings)


def of_sensors(
    instance: dg.DagsterInstance, deployed: Deployed, now: float, *, at_once: bool = True
) -> Iterator[Condition]:
    """The sensors that evaluate the streams of a cluster: whether each is switched on, and ticks.

    Args:
        now: seconds since the epoch.
        at_once: whether it is wrong by one tick that failed, and not only when none of the last
            `LATE` seconds was in order: one fails each time its code location is loaded anew.
    """
    for name, state in _sensors(instance, deployed).items():
        yield _of_sensor(instance, deployed, name, state, now, at_once)


def _of_sensor(
    instance: dg.DagsterInstance,
    deployed: Deployed,
    name: str,
    state: InstigatorState | None,
    now: float,
    at_once: bool,
) -> Condition:
    if not is_on(deployed.repository.get_sensor_def(name), state):
        its, of = [*sensor_of_each(deployed).values()].count(name), len(deployed.streams.by_name)
        which = "nothing is" if its == of else f"{its} of {of} streams are not"
        return Condition(
            name,
            f"switched off: {which} watched, scaled or restarted",
            f"switch it on in the UI, or `dagster sensor start {name}`",
        )
    if state is None:
        return Condition(
            name,
            f"has never ticked in code location {deployed.location!r}",
            "start Dagster with this code location, or reload it in the UI where `shards` was "
            "changed; where Dagster calls it otherwise, load it here by the same workspace file",
        )
    return _ticking(instance, name, state, now, at_once)


def is_on(sensor: dg.SensorDefinition, state: InstigatorState | None) -> bool:
    """Whether a sensor is switched on: as its code says, or else by hand."""
    if state is None or state.status is InstigatorStatus.DECLARED_IN_CODE:
        return sensor.default_status is dg.DefaultSensorStatus.RUNNING
    return state.is_running


def _sensors(instance: dg.DagsterInstance, deployed: Deployed) -> dict[str, InstigatorState | None]:
    """The sensors that evaluate the streams of a cluster, by name, and what is remembered of each;
    None: nothing yet."""
    known = states_of(instance, deployed)
    return {name: known.get(name) for name in deployed.streams.autoscalers}


def states_of(instance: dg.DagsterInstance, deployed: Deployed) -> dict[str, InstigatorState]:
    """What is remembered of each sensor of a code location, by name, also of those that it has no
    more."""
    selector = RepositorySelector(
        location_name=deployed.location, repository_name=deployed.repository.name
    )
    states = instance.all_instigator_state(
        repository_selector_id=selector.selector_id, instigator_type=InstigatorType.SENSOR
    )
    return {each.instigator_name: each for each in states}


def _data(state: InstigatorState | None) -> SensorInstigatorData:
    """What is remembered of a sensor's ticks; of one that has not ticked, nothing."""
    data = None if state is None else state.instigator_data
    return data if isinstance(data, SensorInstigatorData) else SensorInstigatorData()


def last_tick(instance: dg.DagsterInstance, deployed: Deployed) -> float | None:
    """When the autoscaler of a cluster last ticked without failing, seconds since the epoch, of
    several sensors the one that did longest ago; None: it has not."""
    ticks = [_last_in_order(instance, each) for each in _sensors(instance, deployed).values()]
    known = [at for at in ticks if at is not None]
    return min(known) if len(known) == len(ticks) else None


def _last_in_order(instance: dg.DagsterInstance, state: InstigatorState | None) -> float | None:
    """Dagster's own time of the last tick is that of a tick that failed, too."""
    if state is None:
        return None
    key = state.instigator_origin_id, state.selector_id
    ticks = instance.get_ticks(*key, limit=1, statuses=_IN_ORDER)
    return ticks[0].timestamp if ticks else None


def pending_minutes(
    instance: dg.DagsterInstance, deployed: Deployed
) -> dict[str, Sequence[Minute]]:
    """The minutes that the autoscalers of a cluster have seen and not told Dagster of, by stream;
    also those of a sensor that is no more, until another has taken its streams over."""
    latest: dict[str, StreamMemory] = {}
    fleet, owner = fleet_key(deployed.streams.cluster_key), deployed.owner
    for sensor, state in states_of(instance, deployed).items():
        if not is_autoscaler(sensor, deployed.streams.cluster_key):
            continue
        memory = Memory.load(_data(state).cursor)
        with suppress(Exception):  # those that can't be read back now come with the next event
            _spills(owner, sensor).restore(memory, instance, fleet, owner, time.time())
        for name, known in memory.streams.items():
            if name not in latest or latest[name].last_at < known.last_at:
                latest[name] = known
    return {name: known.minutes for name, known in latest.items()}


@cache
def _spills(owner: str, sensor: str) -> Spills:
    """What is known of a sensor's minutes: whoever shows them live asks again and again."""
    return Spills()


def _ticking(
    instance: dg.DagsterInstance, name: str, state: InstigatorState, now: float, at_once: bool
) -> Condition:
    key = state.instigator_origin_id, state.selector_id
    ticks = instance.get_ticks(*key, limit=1)
    failed = bool(ticks) and ticks[0].status is TickStatus.FAILURE
    if failed and not at_once:
        failed = not instance.get_ticks(*key, after=now - LATE, limit=1, statuses=_IN_ORDER)
    if failed:
        error = ticks[0].error
        why = error.message.strip() if error else "no reason is known"
        return Condition(name, f"its last tick failed: {why}", "see the tick in the UI")
    last = _data(state).last_tick_timestamp
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


def not_at_work(
    instance: dg.DagsterInstance, deployed: Deployed, now: float
) -> dict[str, Condition]:
    """The autoscalers of a cluster that are not at work, by name, and why not.

    Args:
        now: seconds since the epoch.
    """
    daemon = of_daemon(instance, now, of=["SENSOR"])
    if daemon.wrong:
        return dict.fromkeys(deployed.streams.autoscalers, daemon)
    found = of_sensors(instance, deployed, now, at_once=False)
    return {each.subject: each for each in found if each.wrong}


def sensor_of_each(deployed: Deployed) -> dict[str, str]:
    """The autoscaler that evaluates each stream of a cluster."""
    streams = deployed.streams
    parts = spread(streams.by_name, streams.shards)
    by_sensor = zip(streams.autoscalers, parts, strict=True)
    return {name: sensor for sensor, part in by_sensor for name in part}


def of_storage(instance: dg.DagsterInstance) -> Iterator[Condition]:
    """Whether times come back from Dagster's storage as they were stored."""
    kind, winter, summer = hours_from_utc(instance) or ("", 0.0, 0.0)
    if kind == "postgresql" and (winter or summer):
        yield Condition(
            "storage",
            f"the time zone of the Postgres server is {winter or summer:+g} h from UTC: a run "
            "seems to have been made that much earlier or later, so that what is on its way is not "
            "seen, or what has died keeps its stream from recovery",
            'options: "-c timezone=UTC" in the params of postgres_db in dagster.yaml, or '
            "`ALTER ROLE ... SET timezone TO 'UTC'`; then start all of Dagster anew",
        )
    if kind == "mysql" and winter != summer:
        yield Condition(
            "storage",
            "the MySQL server's clock is put on in spring: in the hour that it leaves out Dagster "
            "can store no event, and no tick succeeds",
            "default-time-zone = '+00:00' in the settings of the server",
        )


def of_settings(instance: dg.DagsterInstance, autoscalers: int = 1) -> Iterator[Condition]:
    """What would be better otherwise in dagster.yaml.

    Args:
        autoscalers: sensors that evaluate streams, of all clusters and shards together.
    """
    queue = instance.run_coordinator
    if isinstance(queue, QueuedRunCoordinator) and queue.dequeue_interval_seconds > 1:
        yield _better(
            "run queue",
            f"looked at every {queue.dequeue_interval_seconds} s: a rescale waits that long",
            "dequeue_interval_seconds: 1 in run_queue",
        )
    yield from _of_threads(_of(instance, "sensors"), autoscalers)
    yield from _of_code_server(autoscalers)
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


def sensor_threads(settings: Mapping[str, Any]) -> int:
    """How many sensors Dagster's daemon evaluates at a time; where `num_workers` is not stated, as
    many as it does at least: the processors of its machine and four, as Python has it."""
    if not settings.get("use_threads"):
        return 1
    stated: int | None = settings.get("num_workers")
    return LEAST_THREADS if stated is None else stated


def _of_threads(settings: Mapping[str, Any], autoscalers: int) -> Iterator[Condition]:
    """Whether the autoscalers wait for each other, or for other sensors.

    Args:
        settings: `sensors` of dagster.yaml.
    """
    threads, right = sensor_threads(settings), f"num_workers: {autoscalers + 1} or more in sensors"
    waiting = f"and {autoscalers} autoscalers are to be evaluated every minute: they wait for each"
    if not settings.get("use_threads"):
        if autoscalers <= 1:
            text = "evaluated one after the other: a slow one holds up the autoscaler"
            yield _better("sensors", text, "use_threads: true in sensors")
        else:
            text = f"use_threads is false: one is evaluated after the other, {waiting} other"
            yield _better("sensors", text, f"use_threads: true and {right}")
    elif threads < autoscalers:
        stated = settings.get("num_workers") is not None
        text = f"num_workers is {threads}" if stated else f"num_workers is not set: {_BY_MACHINE}"
        yield _better("sensors", f"{text}, {waiting} other", right)


def _of_code_server(autoscalers: int) -> Iterator[Condition]:
    """Whether the code server may evaluate the autoscalers at the same time. Its environment can't
    be seen from here: this process' own is taken for the same."""
    stated = {name: os.environ.get(name, "") for name in CODE_SERVER_WORKERS}
    workers = {
        name: int(text) if text.isdigit() else LEAST_THREADS for name, text in stated.items()
    }
    name = min(workers, key=lambda one: workers[one])
    if autoscalers > 1 and autoscalers + SPARE_WORKERS > workers[name]:
        how = f"{name} is {workers[name]}"
        if not stated[name]:
            how = (
                f"{name} is not set in this shell, so that it answers {workers[name]} calls at a "
                "time or more"
            )
        right = autoscalers + SPARE_WORKERS
        first, second = CODE_SERVER_WORKERS
        yield Condition(
            "code server",
            f"{how}; {autoscalers} autoscalers are to be evaluated at the same time, and Dagster "
            "drops the tick of one that has waited for 60 s",
            f"{first}={right} or more, and {second}={right}, which `dagster code-server start` "
            "needs beside it",
            urgent=False,
        )


def _of(instance: dg.DagsterInstance, key: str) -> Any:
    return instance.get_settings(key) or {}


def _better(subject: str, text: str, cure: str) -> Condition:
    return Condition(subject, text, f"{cure}; {_SAMPLE}", urgent=False)
