"""Who is compared: every policy, its published settings, and what may be searched for instead."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from typing import Any

from benchmarks.policies.peers.kubernetes import Keda, OnRatio, Varga
from benchmarks.policies.peers.others import Dhalion, Numaflow
from benchmarks.policies.peers.rates import Ds2, Flink
from benchmarks.policies.peers.spark import DynamicAllocation, ExecutorAllocationManager
from benchmarks.policies.peers.static import Clairvoyant, static_mean, static_peak
from dagster_sparkscale.autoscale.capacity.policy import CapacityPolicy
from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.backtest.simulate import Decider
from dagster_sparkscale.declare.policies import AutoscalePolicy

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Contestant:
    """A policy that is compared."""

    name: str
    make: Callable[..., AutoscalePolicy | Decider]
    """Makes a new one, of a case and its settings."""
    default: Settings
    """As published, or as its system has it where nobody sets anything."""
    space: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """The values that are searched, by the setting; the default is among what is tried."""
    interval: float | None = 60.0
    """Seconds between two decisions; None: the policy's own."""
    knows_the_load: bool = False
    """Whether it was made by who knew the load beforehand."""
    peer: bool = True
    """Whether it is one that could be used, and is not ours."""

    def grid(self) -> list[Settings]:
        """All settings that may be searched, without the default."""
        names = list(self.space)
        found = [dict(zip(names, values, strict=True)) for values in product(*self.space.values())]
        return [each for each in found if {**self.default, **each} != self.default]


CAPACITY = "CapacityPolicy"


def _policy(kind: type[AutoscalePolicy]) -> Callable[..., AutoscalePolicy]:
    return lambda case, **settings: kind(**settings)


def _of_rule(kind: Callable[..., Decider]) -> Callable[..., Decider]:
    return lambda case, **settings: kind(**settings)


_UP = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
_DOWN = (0.3, 0.4, 0.5, 0.55, 0.6, 0.65)
_TARGETS = (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
_STABILISATIONS = (60.0, 120.0, 300.0, 600.0)

CONTESTANTS: tuple[Contestant, ...] = (
    Contestant(
        *("static mean", static_mean, {"times": 1.0}),
        {"times": (1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.75, 2.0, 2.25, 2.5, 3.0)},
        knows_the_load=True,
    ),
    Contestant(
        *("static peak", static_peak, {"times": 1.0}),
        {"times": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.05, 1.1, 1.2)},
        knows_the_load=True,
    ),
    Contestant(
        *("Spark EAM 0.9/0.3", _of_rule(ExecutorAllocationManager), {"up": 0.9, "down": 0.3}),
        {"up": _UP, "down": _DOWN[:4]},
    ),
    Contestant(
        *("Spark EAM 0.9/0.5", _of_rule(ExecutorAllocationManager), {"up": 0.9, "down": 0.5}),
        {"up": _UP, "down": _DOWN[2:]},
    ),
    Contestant(
        *("Spark dynamic allocation", DynamicAllocation, {"backlog_timeout": 1.0}),
        {"backlog_timeout": (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)},
        interval=10.0,
    ),
    Contestant(
        *("HPA on R", _of_rule(OnRatio), {"target": 0.7, "stabilisation": 300.0}),
        {"target": _TARGETS, "stabilisation": _STABILISATIONS, "tolerance": (0.05, 0.1)},
        interval=15.0,
    ),
    Contestant(
        *("KEDA on lag", _of_rule(Keda), {"threshold": 10.0}),
        {
            "threshold": (2500.0, 3500.0, 4500.0, 5000.0, 5500.0, 6000.0, 6500.0, 7000.0, 8000.0),
            "stabilisation": _STABILISATIONS,
        },
        interval=15.0,
    ),
    Contestant(*("DS2", _of_rule(Ds2), {"utilisation": 1.0}), {"utilisation": _TARGETS}),
    Contestant(
        *("Flink autoscaler", Flink, {"target": 0.7}),
        {
            "target": _TARGETS[2:],
            "window": (120.0, 300.0, 900.0),
            "stabilisation": (60.0, 120.0, 300.0),
            "down_delay": (0.0, 600.0, 3600.0),
            "align": (True, False),
        },
    ),
    Contestant(
        *("Dhalion", _of_rule(Dhalion), {"down": 0.8}),
        {"down": (0.7, 0.8, 0.9), "not_again": (300.0, 900.0, 3600.0, 7200.0)},
        interval=120.0,
    ),
    Contestant(
        *("Varga", _of_rule(Varga), {"target": 0.7}),
        {
            "target": _TARGETS,
            "lag_target": (0.8, 1.0),
            "stabilisation": _STABILISATIONS,
        },
        interval=15.0,
    ),
    Contestant(
        *("Numaflow", _of_rule(Numaflow), {"seconds": 20.0}),
        {"seconds": (8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 16.0), "most": (1, 2, 4)},
        interval=30.0,
    ),
    Contestant(
        *("RatioPolicy", _policy(RatioPolicy), {}),
        {"scale_up_ratio": _UP, "scale_down_ratio": _DOWN[:4]},
        interval=None,
    ),
    Contestant(
        *("clairvoyant", Clairvoyant, {"times": 1.0}),
        {"times": (1.05, 1.1, 1.125, 1.15, 1.175, 1.2, 1.225, 1.25, 1.3, 1.35, 1.4, 1.5)},
        knows_the_load=True,
        peer=False,
    ),
    Contestant(
        *(CAPACITY, _policy(CapacityPolicy), {}),
        {
            "price_of_lateness": (
                *(10.0, 20.0, 30.0, 60.0, 80.0, 100.0, 125.0, 150.0, 200.0, 300.0, 400.0, 800.0),
            )
        },
        interval=None,
        peer=False,
    ),
)


def named(name: str) -> Contestant:
    """The contestant of a name; or any policy, as `module:Class`.

    Raises:
        ValueError: there is none.
    """
    module, colon, kind = name.partition(":")
    if colon:
        return Contestant(name, _policy(getattr(import_module(module), kind)), {}, interval=None)
    found = [each for each in CONTESTANTS if each.name == name]
    if not found:
        names = ", ".join(each.name for each in CONTESTANTS)
        raise ValueError(f"policy = {name!r}: must be module:Class, or one of {names}")
    return found[0]
