"""What people, schedules and the sensor do to a stream: the library's own operations, as their runs
carry them out, on a cluster that is reached through a faulty network."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.autoscale.rescale import RescaleRequest, rescale
from dagster_sparkscale.backpressure.set_limits import LimitsRequest, set_limits
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.errors import ClusterError, Overtaken
from dagster_sparkscale.clusters.records.overtaking import RECOVERY, Requester
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.jobs import StopConfig, stop_by_name
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dagster_sparkscale.receivers.rebalance import RebalanceRequest, rebalance
from dagster_sparkscale.state.plan import Asked
from dagster_sparkscale.state.reconfigure import ReconfigureRequest, reconfigure
from tests.fakes import structured
from tests.faults.processes import RECEIVERS, SOURCE
from tests.receivers.streams import receiving

CHECKPOINT = "/data/clicks"
POLICY = RecoveryPolicy(first_delay=10, longest_delay=60, limit=20, within=3600)
_COMMON: dict[str, Any] = {
    "checkpoint_location": CHECKPOINT,
    "recovery": POLICY,
    "autoscale": RatioPolicy(max_executors=8),
}
NAMES = ("clicks", "visits")
"""Two streams that have the same checkpoint: one may have been renamed."""
PATIENCE = 300.0
"""Seconds that an operation follows what it has asked for."""


STOPS_WITHIN = 15.0
"""Seconds that a driver has to end of itself; those take less that do not hang."""


def _dstream(name: str) -> Stream:
    return receiving(sum(RECEIVERS), **{"name": name}, **_COMMON)


STREAMS: dict[str, tuple[Stream, ...]] = {
    "structured": tuple(
        structured(name, state=State(key_groups=16, partitions=4), **_COMMON) for name in NAMES
    ),
    "dstream": tuple(_dstream(name) for name in NAMES),
}
"""By their kind."""


@dataclass(eq=False)
class Deed:
    """One run of an operation, and what it has told."""

    what: str
    stream: Stream
    name: str
    begun: float
    """By the simulation's clock."""
    value: Any = None
    """What is asked for: executors, records per second, a place, partitions, an epoch."""
    ended: float | None = None
    came: Any = None
    """What it returned, having done what was asked for."""
    error: Exception | None = None
    """What it failed of, or was refused for."""
    lines: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        """What the run's page says of it."""
        if self.ended is None:
            return "nothing"
        return "done" if self.error is None else f"{type(self.error).__name__}: {self.error}"

    @property
    def failed(self) -> bool:
        return self.error is not None

    def carry_out(self, cluster: ClusterManager) -> None:
        """Do it; what it comes to is in `came` or `error`."""
        change = _CHANGES.get(self.what, self.what)
        requester = Requester(
            self.name, change, time.time(), owner="here/cluster", tell=self.lines.append
        )
        try:
            self.came = _ACTS[self.what](cluster, self, requester)
        except (ClusterError, ValueError, Overtaken) as error:  # a run that has failed says why
            self.error = error
        self.ended = time.monotonic()

    def __repr__(self) -> str:
        value = "" if self.value is None else f" {self.value}"
        return f"{self.name}{value} of {self.stream.name!r}: {self.told}"


def _start(cluster: ClusterManager, deed: Deed, requester: Requester) -> Any:
    return reconcile(cluster, deed.stream, requester, Start(cause=deed.name))


def _restart(cluster: ClusterManager, deed: Deed, requester: Requester) -> Any:
    return reconcile(
        cluster,
        deed.stream,
        requester,
        Start(cause=deed.name, restart=True, stop_timeout=STOPS_WITHIN),
    )


def _recover(cluster: ClusterManager, deed: Deed, requester: Requester) -> Any:
    start = Start(cause="recovery", failed_epoch=deed.value)
    return reconcile(cluster, deed.stream, replace(requester, change=RECOVERY), start)


def _stop(cluster: ClusterManager, deed: Deed, requester: Requester) -> Any:
    config = StopConfig(timeout_seconds=STOPS_WITHIN, reason="played")
    return stop_by_name(cluster, deed.stream.name, config, requester)


def _rescale(cluster: ClusterManager, deed: Deed, requester: Requester) -> Any:
    request = RescaleRequest(deed.stream.name, deed.value, wait=PATIENCE)
    return rescale(cluster, deed.stream, request, requester)


def _autoscale(cluster: ClusterManager, deed: Deed, requester: Requester) -> Any:
    target, epoch = deed.value
    request = RescaleRequest(deed.stream.name, target, wait=PATIENCE)
    decided = replace(requester, epoch=epoch, decided=True, of_one_driver=True)
    return rescale(cluster, deed.stream, request, decided)


def _limit(cluster: ClusterManager, deed: Deed, requester: Requester) -> Any:
    request = LimitsRequest(SOURCE, rate=deed.value, wait=PATIENCE)
    return set_limits(cluster, deed.stream, request, requester.of(SOURCE))


def _move(cluster: ClusterManager, deed: Deed, requester: Requester) -> Any:
    receiver, executor = deed.value
    request = RebalanceRequest(receiver, executor, wait=PATIENCE)
    return rebalance(cluster, deed.stream, request, replace(requester, of_one_driver=True))


def _reconfigure(cluster: ClusterManager, deed: Deed, requester: Requester) -> Any:
    request = ReconfigureRequest(Asked(partitions=deed.value), deed.name, PATIENCE)
    return reconfigure(cluster, deed.stream, request, requester)


_ACTS: dict[str, Callable[[ClusterManager, Deed, Requester], Any]] = {
    "start": _start,
    "restart": _restart,
    "recover": _recover,
    "stop": _stop,
    "rescale": _rescale,
    "autoscale": _autoscale,
    "limit": _limit,
    "move": _move,
    "reconfigure": _reconfigure,
}
_CHANGES = {
    "autoscale": "rescale",
    "limit": "set_limits",
    "move": "rebalance",
    "reconfigure": "reconfigure_state",
}
"""The names by which the library knows them, where these differ."""
