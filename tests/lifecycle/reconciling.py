"""Starts of a stream, on a cluster in memory."""

from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from tests.fakes import structured
from tests.in_memory.cluster import World
from tests.requesting import requester_of

STREAM = structured(executors=3, recovery=RecoveryPolicy(first_delay=1e-9, longest_delay=1e-9))


def start(world: World, stream=STREAM, **how):
    requester = requester_of(how, "start run 1")
    return reconcile(world.cluster, stream, requester, Start(**how))


def submissions(world: World) -> list[str]:
    return [call for call in world.calls if call.startswith("submit")]
