"""A real local cluster as a process reaches it whose calls are damaged on their way, and operations
that are processes of their own, as runs are.
"""

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from dagster_sparkscale import LocalCluster
from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.host.drivers import HostedDriver
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.records.store import Record
from tests.faults.deeds import Deed
from tests.faults.kinds import Fault
from tests.faults.wrapping import AGENT, CLUSTER, DRIVER, STORE, Network, with_faults


class ThisProcess:
    """The process whose calls are damaged."""

    def __init__(self, seed: str) -> None:
        self.chance = Random(seed)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def later(self, act: Callable[[], None], seconds: float) -> None:
        # No daemon: it is carried out, though the operation has ended by then.
        threading.Timer(seconds, act).start()

    def hold_up(self, seconds: float) -> None:
        me = os.getpid()
        waking = (
            f"n=0; while [ $n -lt {seconds:.0f} ] && kill -0 {me}; do sleep 1; n=$((n + 1)); done; "
            f"kill -CONT {me}"
        )
        with subprocess.Popen(["/bin/sh", "-c", waking]):
            os.kill(me, signal.SIGSTOP)


_ways: list[Network] = []
"""The one way of this process to the cluster."""


def _way(_: Any) -> Network:
    return _ways[0]


FaultyAgent = with_faults(AGENT, RemoteAgent, _way)
FaultyStore = with_faults(STORE, FolderStore, _way)


def _faulty(agent: RemoteAgent) -> Any:
    return FaultyAgent(**{each.name: getattr(agent, each.name) for each in fields(agent)})


class _Driver(HostedDriver):
    def agent(self) -> RemoteAgent:
        agent: RemoteAgent = _faulty(super().agent())
        return agent


FaultyDriver = with_faults(DRIVER, _Driver, _way)


class _Cluster(LocalCluster):
    def store(self) -> Any:
        return FaultyStore(self.state_path())

    def driver_of(self, stream: str, record: Record) -> Any:
        return FaultyDriver(self.store().folder(stream), record)

    def agent(self, driver: Driver) -> Any:
        return _faulty(super().agent(driver))


FaultyCluster = with_faults(CLUSTER, _Cluster, _way)


@dataclass(frozen=True)
class Damage:
    """What the calls of one process meet."""

    fault: Fault
    rate: float
    seed: str


class Run:
    """An operation that is being carried out by a process of its own."""

    def __init__(self, deed: Deed, cluster: LocalCluster, damage: Damage) -> None:
        self.deed = deed
        self.met: Counter[str] = Counter()
        """How often each call has met the fault; nothing of one that was killed."""
        self.begun = threading.Event()
        """Set once it has all that it needs, or is dead."""
        self.over: float | None = None
        """When it had told what it came to, or was found dead."""
        self.killed = False
        self._told, tell = (spawned := get_context("spawn")).Pipe(duplex=False)
        what = (deed, cluster.model_dump(), damage, tell)
        self._process = spawned.Process(target=_carry_out, args=what, name=deed.name)
        self._process.start()
        tell.close()

    def follow(self) -> None:
        """Wait until it has told what it came to, or is dead. What it has left to be carried out
        later may still come."""
        try:
            self._told.recv()
            self.begun.set()
            done, self.met = self._told.recv()
        except (EOFError, OSError):
            self._process.join()
            self.over = time.monotonic()
            return
        finally:
            self.begun.set()
            self._told.close()
        self.deed.came, self.deed.error, self.deed.lines = done.came, done.error, done.lines
        self.deed.ended = self.over = done.ended

    @property
    def crashed(self) -> bool:
        """Whether it is over, though nobody killed it, and has not told what it came to."""
        return self.over is not None and self.deed.ended is None and not self.killed

    def kill(self) -> None:
        self.killed = True
        self._process.kill()

    def end(self) -> None:
        """Wait for the end of its process, which may carry something out yet."""
        self._process.join()


def _carry_out(deed: Deed, cluster: dict[str, Any], damage: Damage, told: Connection) -> None:
    network = Network(ThisProcess(damage.seed), damage.fault, damage.rate)
    _ways.append(network)
    reached = FaultyCluster(**cluster)
    told.send("begun")
    deed.carry_out(reached)
    told.send((deed, Counter({name: n for (name, _), n in network.met.items()})))
    told.close()
