"""Processes that start streams on an API server in memory, a call at a time.

Each call to the API server is a moment at which a process may be killed, or freeze while others do
all they want. What is real here: `KubernetesCluster` with all that it is made of, leases, and the
way of a start. What is simulated: the server (`memory.py`), the processes and the clocks.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Self

import pytest
from pydantic import PrivateAttr

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters import spark_cluster
from dagster_sparkscale.clusters.errors import AgentUnreachable, ClusterError
from dagster_sparkscale.clusters.host import places
from dagster_sparkscale.clusters.kubernetes import cluster as kubernetes_cluster
from dagster_sparkscale.clusters.kubernetes.drivers import PodDriver
from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.records.leases import LEASE_SECONDS, Lease
from dagster_sparkscale.clusters.records.overtaking import Holder
from dagster_sparkscale.clusters.records.store import Process
from tests import clocks
from tests.clusters import simulated
from tests.clusters.kubernetes.memory import Client, Server

MYSELF = Process("h1", 99, "b", "m", "boot", "ns")
"""Of a test that does something itself."""


class MemoryKubernetes(KubernetesCluster):
    """What one process has of the cluster."""

    _client: Client = PrivateAttr()
    _world: "World" = PrivateAttr()

    @classmethod
    def of(cls, world: "World", client: Client | None = None, **fields: Any) -> Self:
        made = cls(**{"image": "spark", **fields})
        made._client = client or Client(world.server)
        made._world = world
        return made

    def _api(self) -> Client:
        return self._client

    def lease(
        self, stream: str, holder: Holder, wait: float = 0.0
    ) -> AbstractContextManager[Lease]:
        return leases.hold(
            self.store(),
            stream,
            holder,
            wait,
            keeping=lambda lease: nullcontext(),
            clock=lambda: self._world.now,
            sleep=self._world.lets_leases_age,
        )


@dataclass
class World:
    """The server, and the processes that ask it."""

    server: Server = field(default_factory=Server)
    now: float = 1000.0
    pids: int = 0
    operations: list[Any] = field(default_factory=list)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.server.settles()

    def lets_leases_age(self, _: float) -> None:
        """In a few steps: each look at a lease is a call."""
        self.passes(LEASE_SECONDS / 2)

    def process(self) -> Process:
        operation = simulated._current.operation
        return MYSELF if operation is None else operation.process

    def has_ended(self, process: Process) -> bool:
        return any(each.process == process and not each.alive for each in self.operations)


class Operation(simulated.Operation):
    """A process that does one thing to the cluster, a call at a time."""

    world: Any

    def __init__(self, world: World, act: Callable[[MemoryKubernetes], Any]) -> None:
        self.came_of: Any = None
        """What it has returned, or the error that it was refused with; None: nothing yet."""

        def told(cluster: Any) -> None:
            try:
                self.came_of = act(cluster)
            except ClusterError as error:
                self.came_of = error

        super().__init__(world, "h1", told)  # type: ignore[arg-type]  # what it needs of one
        world.operations.append(self)

    def side(self) -> MemoryKubernetes:
        client = Client(self.world.server, before=lambda call: simulated.moment())
        return MemoryKubernetes.of(self.world, client)

    def goes_on(self, calls: int | None = None) -> "Operation":
        """So many calls further, or to its end."""
        while not self.done and calls != 0:
            self.step()
            running = self.world.server.running()
            assert len(running) <= 1, f"two drivers: {running}"
            calls = None if calls is None else calls - 1
        return self


def world_of(monkeypatch: pytest.MonkeyPatch, prompt: bool = True) -> World:
    """A world of which the library's clocks and processes are. No agent answers in it."""
    world = World(Server(prompt))

    def silent(driver: PodDriver) -> Any:
        raise AgentUnreachable("it does not answer")

    clocks.replace(monkeypatch, "sleep", world.passes)
    monkeypatch.setattr(places, "this_process", world.process)
    monkeypatch.setattr(places, "has_ended", world.has_ended)
    monkeypatch.setattr(spark_cluster, "ANNOUNCE_SECONDS", -1.0)
    monkeypatch.setattr(PodDriver, "agent", silent)
    # Nobody unpacks it, and most of the time would go into its JSON.
    monkeypatch.setattr(kubernetes_cluster, "parcel", lambda: b"code")
    return world
