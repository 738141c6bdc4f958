"""What of a stream's policy goes into its assessment, and what its sighting is known by."""

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.declare.drift import declared
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.watch.sighting import LOG_LINES, Sighting, look
from tests.fakes import QUERY, batch, driver, scaled, status, structured
from tests.in_memory.cluster import World
from tests.watch.assessing import assess


def assessed(stream, **fields):
    return assess(stream, Sighting("clicks", driver(), status(**fields)), now=2000.0)


@pytest.mark.parametrize(
    ("stream", "passed"),
    [(scaled(max_lag=1), False), (scaled(max_lag=9), True), (scaled(), None), (structured(), None)],
)
def test_a_lag_is_held_against_what_the_policy_allows(stream, passed):
    late = (Query(QUERY, active=True, behind_ms=5000),)
    found = assessed(stream, queries=late, batches=(batch(5),)).health[Health.LAG_WITHIN_LIMIT]
    assert found.passed is passed


def test_who_does_not_say_when_it_was_last_decided_gets_a_decision():
    assert isinstance(assessed(scaled(), batches=(batch(25),)).decision, ScaleTo)


def fault(world: World, error: Exception) -> None:
    def find(stream):
        raise error

    world.on_find = find


@pytest.mark.parametrize(
    "happens",
    [
        lambda world: None,
        lambda world: world.end("clicks"),
        lambda world: world.end("clicks", DriverState.STOPPED),
        lambda world: fault(world, ClusterError("no disk")),
        lambda world: fault(world, KeyError("epoch")),
    ],
)
def test_a_sighting_is_of_its_stream_whatever_was_seen(happens):
    world = World()
    world.run(scaled())
    happens(world)
    assert look(world.cluster, scaled(), timeout=1.0).stream == "clicks"


def test_the_end_of_a_failed_drivers_log_is_shown_and_not_all_of_it():
    world = World()
    kept = world.run(scaled())
    kept.log = [str(line) for line in range(100)]
    world.end("clicks")
    tail = look(world.cluster, scaled(), timeout=1.0).log_tail
    assert tail.splitlines() == [str(line) for line in range(100 - LOG_LINES, 100)]


def test_a_maximum_that_was_raised_counts_from_the_restart_on_and_holds_the_stream_until_then():
    """What is asked for beyond spark.cores.max of the driver never comes."""
    before = declared(scaled(max_executors=2))
    overloaded = status(batches=(batch(25),))
    sighting = Sighting("clicks", driver(declared=before), overloaded)
    found = assess(scaled(max_executors=8), sighting, now=2000.0)
    assert found.decision.operation is None
    assert "restart the stream to apply it" in found.decision.reason
    assert found.health[Health.BELOW_MAXIMUM].passed is False
    assert found.drift == ("max_executors 2 -> 8",)
    now = Sighting("clicks", driver(declared=declared(scaled(max_executors=8))), overloaded)
    assert assess(scaled(max_executors=8), now, now=2000.0).acts
