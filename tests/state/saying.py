"""What drivers say of the state of their queries, and a cluster in memory that plays it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.driver.settings import PLAN
from dagster_sparkscale.driver.state.plans import StatePlan, plan_of
from dagster_sparkscale.observe.status import Query, QueryState, Reconfiguration
from tests.fakes import QUERY, structured
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept


def stateful(name: str = "clicks", spark_conf: Any = None, **state: Any) -> StructuredStream:
    """A stream that declares state: 16 key groups in 8 partitions, unless that is said."""
    declared = State(**{"key_groups": 16, "partitions": 8} | state)
    place = f"/data/checkpoints/{name}"
    return structured(name, checkpoint_location=place, state=declared, spark_conf=spark_conf or {})


def kept_by(query: str = QUERY, **state: Any) -> Query:
    """An active query that has told of its state: 4 partitions in RocksDB."""
    plain = {
        "rows": 1_000_000,
        "bytes": 64 * 1024**2,
        "partitions": 4,
        "provider": "RocksDBStateStoreProvider",
        "key_groups": 16,
        "operators": ("stateStoreSave",),
    }
    return Query(query, active=True, state=QueryState(**plain | state))


def change(
    id: str = "p1", query: str = QUERY, step: str = "over", **fields: Any
) -> Reconfiguration:
    """A change from 4 to 8 partitions; over, unless another step is said."""
    plain: dict[str, Any] = {"outcome": "changed" if step == "over" else None}
    plain |= {"before": 4, "after": 8, "key_groups": 16, "rows": 1_000_000}
    return Reconfiguration(id, query, step, 1_800_000_000.0, **plain | fields)


def plan(kept: Kept) -> StatePlan | None:
    """The plan that a driver was started with."""
    return plan_of(kept.settings[PLAN]) if PLAN in kept.settings else None


Act = Callable[[Kept, str], None]
"""Makes a driver say something else from then on; gets the id of the plan in question."""


def tells(*changes: Reconfiguration, **kept_fields: Any) -> Act:
    """Its changes, by the plan's id in place of their own, and whatever else it keeps."""

    def act(kept: Kept, id: str) -> None:
        kept.reconfigurations = tuple(replace(each, id=id) for each in changes)
        for name, value in kept_fields.items():
            setattr(kept, name, value)

    return act


def runs(partitions: int = 8, *changes: Reconfiguration) -> Act:
    """Its query runs on so many partitions, and has completed a batch."""
    return tells(*changes, queries=(kept_by(partitions=partitions),), batch_seconds=1.0)


def dies(world: World, state: DriverState = DriverState.FAILED, **fields: Any) -> Act:
    """It ends: killed, unless that is said."""

    def act(kept: Kept, id: str) -> None:
        world.end(kept.driver.stream, state, **{"exit_reason": "killed by signal 9"} | fields)

    return act


def plays(world: World, *lives: list[Act]) -> None:
    """Each further driver of the stream lives one of these: an act a look. The last one stays. The
    first look, which is that of the start, sees none."""
    todo, ids = list(lives), []

    def submitted(kept: Kept) -> None:
        acts = todo.pop(0)
        given = plan(kept)
        if given is not None:
            ids.append(given.id)
        kept.queries, kept.batch_seconds = (), None
        looks: list[Kept] = []

        def look(seen: Kept) -> None:
            looks.append(seen)
            if acts and seen is kept and len(looks) > 1:
                acts.pop(0)(kept, ids[-1])

        world.on_look = look

    world.on_submit = submitted
