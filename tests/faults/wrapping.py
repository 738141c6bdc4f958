"""Wraps every method of a contract, so that each call of it may meet a fault. Generated: a method
that the contract gets tomorrow is wrapped tomorrow.

`Network` is what lies between. What a call of a network returns is not a call more, but where it
can be called itself, as the launch that `SparkCluster.launching` has prepared.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.errors import AgentUnreachable, ClusterError
from dagster_sparkscale.clusters.records.leases import LEASE_SECONDS
from dagster_sparkscale.clusters.records.store import Store
from dagster_sparkscale.clusters.spark_cluster import SparkCluster
from dagster_sparkscale.clusters.submitted import SubmittedDriver
from tests.faults.kinds import Clocks, Fault, Mode

LATENCY = 0.05
"""Seconds that a call takes, at most, where nothing is wrong."""
ANSWERS_LATE = (1.0, 15.0)
OVERDUE = (1.0, 60.0)
"""Seconds after which something is carried out whose caller has been told that it was not."""
HELD_UP = (1.2 * LEASE_SECONDS, 6 * LEASE_SECONDS)


@dataclass(frozen=True)
class Contract:
    """A part of the cluster, as the library calls it."""

    part: str
    kind: type
    local: frozenset[str]
    """Methods that call nothing beyond their own process, or only make what does."""
    error: Callable[[str], Exception] = ClusterError
    """What the library is told by, where there is no answer."""
    hooks: frozenset[str] = frozenset()
    """Methods of an abstract class that some managers override, with calls of their own."""

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of what is wrapped: all public methods that the contract defines and, where it is
        an abstract class, leaves to whoever implements it, or lets them override."""
        if inspect.isabstract(self.kind):
            names = sorted({*self.kind.__abstractmethods__, *self.hooks})
        else:
            public = vars(self.kind).items()
            names = sorted(n for n, f in public if inspect.isfunction(f) and n[0] != "_")
        return tuple(name for name in names if name not in self.local)


STORE = Contract("store", Store, frozenset({"new_id", "process", "has_ended"}))
AGENT = Contract("agent", RemoteAgent, frozenset(), AgentUnreachable)
DRIVER = Contract(
    "cluster",
    SubmittedDriver,
    frozenset({"agent", "log_place", "out_of_reach"}),
    hooks=frozenset({"has_begun", "make_way"}),
)
CLUSTER = Contract(
    "cluster",
    SparkCluster,
    frozenset(
        {"agent", "conditions", "doubt", "driver_of", "end", "find", "lease", "logs", "misfit"}
        | {"model_post_init", "place", "snapshot", "store"}
    ),
    hooks=frozenset({"check", "make_way", "prepare"}),
)
"""`find`, `end`, `lease` and `logs` are made of calls to the store and a driver's submission, which
are wrapped; the sensor takes a `snapshot` of all streams, which is not played here."""
CONTRACTS = (STORE, AGENT, DRIVER, CLUSTER)


class Host(Protocol):
    """Where calls are made: a process that is played, or a real one."""

    chance: Random

    def sleep(self, seconds: float) -> None:
        """Wait; whatever else there is goes on."""

    def later(self, act: Callable[[], None], seconds: float) -> None:
        """Have something done in so many seconds, whatever becomes of who asks."""

    def hold_up(self, seconds: float) -> None:
        """Have the whole process of who asks stand still."""


@dataclass
class Network:
    """What lies between the library and the cluster, by seed and rate."""

    world: Host
    fault: Fault | None
    rate: float
    calls: Counter[str] = field(default_factory=Counter)
    met: Counter[tuple[str, Mode | Clocks]] = field(default_factory=Counter)
    """How often each method has met each fault."""

    def call(self, contract: Contract, name: str, do: Callable[[], Any], timeout: float) -> Any:
        """Carry out `do`, or not, and return what it does, or not."""
        world, what = self.world, f"{contract.part}.{name}"
        world.sleep(world.chance.uniform(0, LATENCY))
        self.calls[what] += 1
        mode = self._mode(contract.part)
        if mode is None:
            result = do()
            world.sleep(world.chance.uniform(0, LATENCY))
            return result
        self.met[what, mode] += 1
        if mode is Mode.FAILS_BEFORE:
            raise contract.error(f"{what}: connection refused (a fault that is played)")
        if mode is Mode.CARRIED_OUT_LATE:
            world.later(_hushed(do), timeout + world.chance.uniform(*OVERDUE))
            world.sleep(timeout)
            raise contract.error(f"{what}: no answer in {timeout:g} s (a fault that is played)")
        if mode is Mode.ANSWERS_LATE:
            result = do()
            world.sleep(world.chance.uniform(*ANSWERS_LATE))
            return result
        if mode is Mode.ANSWERS_AFTER_LEASE:
            result = do()
            # All threads of the process, that which keeps its lease included.
            world.hold_up(world.chance.uniform(*HELD_UP))
            return result
        _hushed(do)()
        if mode is Mode.TIMES_OUT_AFTER:
            world.sleep(timeout)
            raise contract.error(f"{what}: no answer in {timeout:g} s (a fault that is played)")
        world.sleep(world.chance.uniform(0, LATENCY))
        raise contract.error(f"{what}: connection reset by peer (a fault that is played)")

    def _mode(self, part: str) -> Mode | None:
        fault = self.fault
        if fault is None or isinstance(fault.mode, Clocks) or not fault.hits(part):
            return None
        if self.world.chance.random() >= self.rate:
            return None
        return fault.mode or self.world.chance.choice(list(Mode))


def _hushed(do: Callable[[], Any]) -> Callable[[], None]:
    """`do`, whose answer nobody hears."""

    def act() -> None:
        try:
            do()
        except ClusterError:
            return

    return act


TIMEOUT = 10.0
"""Seconds after which a call without a timeout of its own counts as lost."""


def with_faults(contract: Contract, kind: type, network_of: Callable[[Any], Network]) -> type:
    """A class as `kind`, each call of which to what `contract` defines goes through a network.

    Args:
        network_of: the network of an instance.
    """
    made: Mapping[str, Any] = {
        name: _through(contract, name, kind, network_of)
        for name in contract.methods
        if hasattr(kind, name)
    }
    return type(f"Faulty{kind.__name__}", (kind,), {"__module__": __name__, **made})


def _through(
    contract: Contract, name: str, kind: type, network_of: Callable[[Any], Network]
) -> Callable[..., Any]:
    takes = inspect.signature(getattr(kind, name)).parameters
    place = list(takes).index("timeout") - 1 if "timeout" in takes else len(takes)
    otherwise = takes["timeout"].default if "timeout" in takes else TIMEOUT

    def call(self: Any, *args: Any, **more: Any) -> Any:
        timeout = args[place] if place < len(args) else more.get("timeout", otherwise)
        network = network_of(self)

        def do() -> Any:
            return getattr(kind, name)(self, *args, **more)

        result = network.call(contract, name, do, timeout)
        if not callable(result):
            return result

        def go_on(*args: Any, **more: Any) -> Any:
            return network.call(contract, f"{name}()", lambda: result(*args, **more), timeout)

        return go_on

    return call
