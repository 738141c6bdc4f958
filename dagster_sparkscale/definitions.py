"""`build_defs`: from declared streams and a cluster to everything Dagster needs."""

import logging
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from dagster_sparkscale.advice.job import NAME as BACKTEST
from dagster_sparkscale.advice.job import backtest_job, backtest_schedule
from dagster_sparkscale.autoscale.rescale_job import RESCALE
from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.kubernetes.schemas import fault_of_tags
from dagster_sparkscale.declare.backtest import Backtest
from dagster_sparkscale.declare.budget import Budget, check_budget
from dagster_sparkscale.declare.calls import called_right
from dagster_sparkscale.declare.checkpoints import normalized
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import shown
from dagster_sparkscale.declare.fields import check_cluster_key, check_shards, check_switch
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.assets import stream_asset
from dagster_sparkscale.lifecycle.jobs import RESTART, STOP
from dagster_sparkscale.lifecycle.remedies import NAMES, remedy_jobs
from dagster_sparkscale.names import DEFAULT_CLUSTER_KEY, scoped
from dagster_sparkscale.operations import Operation, Operations, Streams, asset_key, graph_name
from dagster_sparkscale.private_dagster import register_library
from dagster_sparkscale.quantities import counted, named
from dagster_sparkscale.version import __version__
from dagster_sparkscale.watch.checks import health_checks
from dagster_sparkscale.watch.fleet.events import fleet_asset, fleet_key
from dagster_sparkscale.watch.sensor import autoscale_sensors

register_library("dagster-sparkscale", __version__)

# Dagster itself sets this parameter in beta, of every sensor that has jobs, while it loads them.
warnings.filterwarnings("ignore", "Parameter `owners` of initializer `Sensor", dg.BetaWarning)


def all_operations() -> tuple[Operation[Any, Any], ...]:
    """What can be done to a stream: what every one needs, and what each capability brings."""
    return (RESCALE, RESTART, STOP, *CAPABILITIES.operations)


_LOG = logging.getLogger(__name__)


@called_right(
    {
        "streams": "a list of streams",
        "cluster": "a cluster manager, such as LocalCluster() or StandaloneCluster(master=...)",
    }
)
def build_defs(
    streams: Sequence[Stream],
    cluster: ClusterManager,
    *,
    cluster_key: str = DEFAULT_CLUSTER_KEY,
    autoscaler_running: bool = True,
    run_tags: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    backtest: Backtest | None = None,
    shards: int = 1,
) -> dg.Definitions:
    """Assets, health checks, jobs and the autoscaler of `streams` on `cluster`.

    Merge the result with the rest of a code location by `dg.Definitions.merge`.

    Args:
        streams: the declared streams, in any order.
        cluster: the cluster manager they run on.
        cluster_key: the resource's key. Give each cluster its own where a code location has
            several; it then also ends the names of the jobs and of the sensor.
        autoscaler_running: whether the sensor runs as soon as the code location is loaded. False
            leaves that to a switch in the UI.
        run_tags: of the runs of the jobs, such as `dagster-k8s/config`, which says what the pod of
            a run is like. Materializations are Dagster's own runs, and don't have them.
        budget: the cores that the streams may have together, and groups of them. None: as many as
            the cluster has.
        backtest: when the streams are backtested by themselves. None: only by hand.
        shards: the sensors that evaluate the streams, each a part of them: one for each 800
            streams is enough. It may be changed at any time.

    Raises:
        DeclarationError: no stream, a name or a checkpoint twice, something that is no stream, or
            one that the cluster can never run, or Dagster not show; a budget that can't hold the
            fewest executors; a tag that dagster-k8s could
            not launch a run by.
    """
    _validate(streams, cluster, cluster_key)
    _warn(streams, cluster)
    check_switch("autoscaler_running", autoscaler_running)
    _validate_tags(run_tags)
    if budget is not None:
        check_budget(budget, streams)
    check_shards(shards)
    known = Streams(streams, cluster_key, run_tags, budget, shards)
    tried = backtest_job(known)
    backtests = [] if backtest is None else [backtest_schedule(known, tried, backtest)]
    operations = Operations(known, all_operations())
    status = dg.DefaultSensorStatus
    return dg.Definitions(
        assets=[*(stream_asset(known, stream) for stream in known), fleet_asset(known)],
        asset_checks=[health_checks(known, stream, CAPABILITIES) for stream in known],
        jobs=[*operations.jobs.values(), *remedy_jobs(known), tried],
        schedules=[*CAPABILITIES.schedules(known, operations), *backtests],
        sensors=autoscale_sensors(
            *(known, operations, CAPABILITIES),
            default_status=status.RUNNING if autoscaler_running else status.STOPPED,
            budget=budget,
        ),
        resources={cluster_key: cluster},
    )


NAMED = 3
"""Streams that a warning names at most."""


def _warn(streams: Sequence[Stream], cluster: ClusterManager) -> None:
    doubts: dict[str, list[Stream]] = {}
    for stream in streams:
        if doubt := cluster.doubt(stream):
            doubts.setdefault(doubt, []).append(stream)
    for doubt, of in doubts.items():
        who = f"{type(of[0]).__name__} {of[0].name!r}"
        if len(of) > 1:
            who = f"{counted(len(of), 'stream')} ({named([each.name for each in of], NAMED)})"
        _LOG.warning("%s: %s", who, doubt)


def _validate(streams: Sequence[Stream], cluster: ClusterManager, cluster_key: str) -> None:
    if not isinstance(streams, Sequence):
        raise DeclarationError(
            f"streams: a single {type(streams).__name__}; must be a list of streams"
        )
    if not streams:
        raise DeclarationError("streams: empty; declare at least one StructuredStream or DStream")
    for position, stream in enumerate(streams):
        # Not its value: a declaration that is still a dict may hold secrets.
        if not isinstance(stream, Stream):
            raise DeclarationError(
                f"streams[{position}] is a {type(stream).__name__}; "
                "must be a StructuredStream or a DStream"
            )
    if not isinstance(cluster, ClusterManager):
        raise DeclarationError(
            f"cluster = {shown(cluster)}: must be a cluster manager, such as LocalCluster() "
            "or StandaloneCluster(master=...)"
        )
    check_cluster_key(cluster_key)
    for name, count in Counter(stream.name for stream in streams).items():
        if count > 1:
            raise DeclarationError(f"name = {name!r}: {count} streams have it; each needs its own")
    _validate_names(streams, cluster_key)
    for stream in streams:
        if fault := cluster.misfit(stream):
            raise DeclarationError(f"{type(stream).__name__} {stream.name!r}: {fault}")
    owners: dict[str, str] = {}
    for stream in streams:
        if stream.checkpoint_location is None:
            continue
        place = normalized(stream.checkpoint_location, stream.spark_conf)
        if place in owners:
            raise DeclarationError(
                f"checkpoint_location = {stream.checkpoint_location!r}: streams "
                f"{owners[place]!r} and {stream.name!r} both have it; two drivers on one "
                "checkpoint lose data: give each its own"
            )
        owners[place] = stream.name


def _validate_tags(run_tags: Mapping[str, Any] | None) -> None:
    if run_tags is not None and not isinstance(run_tags, Mapping):
        raise DeclarationError(
            f'run_tags = {shown(run_tags)}: must be a dict, such as {{"team": "clicks"}}'
        )
    if fault := fault_of_tags(run_tags or {}):
        raise DeclarationError(f"run_tags: {fault}")


def _validate_names(streams: Sequence[Stream], cluster_key: str) -> None:
    """Dagster makes one op of each asset, check and job, and wants their names to differ."""
    taken: dict[str, str] = {}
    for name in (*(operation.name for operation in all_operations()), *NAMES, BACKTEST):
        job = scoped(name, cluster_key)
        taken |= dict.fromkeys((job, graph_name(job)), "a job")
    fleet = fleet_key(cluster_key)
    for stream in streams:
        if asset_key(stream) == fleet:
            raise DeclarationError(
                f"name = {stream.name!r}: the asset that shows all streams has it; "
                "rename the stream"
            )
        op = asset_key(stream).to_python_identifier()
        for name in (op, f"{op}_health"):
            if name in taken:
                raise DeclarationError(
                    f"name = {stream.name!r}: {name!r} is taken by {taken[name]}; rename the stream"
                )
            taken[name] = f"stream {stream.name!r}"
