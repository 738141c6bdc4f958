"""The plan of a change of state partitions, by what a driver says of its queries."""

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.state.partition_change import PartitionChange
from dagster_sparkscale.state.plan import Aim, Asked, Barred, Settled, aim
from tests.fakes import driver, status
from tests.state.saying import kept_by, stateful


def aimed(
    declared=None, *queries: Query, asked: Asked | None = None, state=DriverState.RUNNING, **fields
) -> Aim:
    """The aim for a stream whose driver says this; one query in 4 partitions unless it is said."""
    says = {"spark_version": "4.3.0", "queries": queries or (kept_by(),)}
    seen = status(**says | fields)
    return aim(declared or stateful(), driver(state), seen, asked or Asked(), id="p1", now=2000.0)


def refused(*args, **fields) -> str:
    found = aimed(*args, **fields)
    assert isinstance(found, Barred), found
    return found.why


def changed(*args, **fields) -> PartitionChange:
    found = aimed(*args, **fields)
    assert isinstance(found, PartitionChange), found
    return found


def settled(*args, **fields) -> str:
    found = aimed(*args, **fields)
    assert isinstance(found, Settled), found
    return found.why
