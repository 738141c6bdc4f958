"""Streams that share the cores of a budget, tick by tick."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.definitions import build_defs
from dagster_sparkscale.watch import cursor
from tests.fakes import scaled, structured
from tests.in_memory.cluster import World
from tests.watch.deployment import Deployment, overload

CLICKS = scaled("clicks", max_executors=10)
ORDERS = scaled("orders", max_executors=10)
URGENT = ORDERS.model_copy(update={"priority": 1})


def deployed(*streams: Stream, cores: int = 8) -> Deployment:
    return Deployment([*streams], budget=Budget(cores=cores))


def test_a_stream_gets_what_is_left_and_the_other_hears_who_has_it() -> None:
    both = deployed(CLICKS, URGENT)
    overload(both, CLICKS, executors=2)
    overload(both, URGENT, executors=3)
    tick = both.tick()
    # 2.5 is what an overload of these measures as R: 3 more each were wanted.
    assert tick.decided("orders").startswith("scale to 6: 3 registered -> 6: R 2.50")
    held = tick.decided("clicks")
    assert "hold: the budget of the cluster is 8 cores, 8 are taken (orders 6), and 3 more" in held
    assert "otherwise: scale to 5: 2 registered -> 5: R 2.50" in held
    assert [request.tags["dagster-sparkscale/stream"] for request in tick.requests] == ["orders"]


def test_what_fits_of_a_decision_is_done() -> None:
    one = deployed(CLICKS, cores=4)
    overload(one, CLICKS, executors=2)
    decided = one.tick().decided("clicks")
    assert decided.startswith("scale to 4: the budget of the cluster is 4 cores, 4 are taken, ")
    assert "otherwise: scale to 5: 2 registered -> 5: R 2.50" in decided


def test_what_was_granted_counts_until_its_run_would_come_too_late(clock) -> None:
    both = deployed(CLICKS, ORDERS, cores=10)
    overload(both, CLICKS, executors=4)
    idle = overload(both, ORDERS, executors=2, batch_seconds=7)
    assert both.tick().decided("clicks").startswith("scale to 7: ")
    clock[0] += 60  # and its run has not begun
    idle.batch_seconds = 25
    assert both.tick().decided("orders").startswith("scale to 3: the budget of the cluster is 10 ")
    clock[0] += 180
    assert both.tick().decided("orders").startswith("scale to 5: ")


def test_what_was_granted_counts_though_the_cursor_is_full(clock, monkeypatch) -> None:
    monkeypatch.setattr(cursor, "ROOM", 1)
    monkeypatch.setattr(cursor, "A_STREAM", 0)
    both = deployed(CLICKS, ORDERS, cores=10)
    overload(both, CLICKS, executors=4)
    idle = overload(both, ORDERS, executors=2, batch_seconds=7)
    assert both.tick().decided("clicks").startswith("scale to 7: ")
    clock[0] += 60
    idle.batch_seconds = 25
    again = Deployment(both.streams, both.world, both.instance, both.cursor, budget=both.budget)
    assert again.tick().decided("orders").startswith("scale to 3: the budget of the cluster is 10 ")


@pytest.mark.parametrize(
    ("state", "free"),
    [(DriverState.FAILED, False), (DriverState.UNKNOWN, False), (DriverState.STOPPED, True)],
)
def test_what_does_not_run_keeps_its_cores_unless_it_is_stopped(
    state: DriverState, free: bool
) -> None:
    both = deployed(CLICKS, ORDERS, cores=10)
    overload(both, CLICKS, executors=4)
    overload(both, ORDERS, executors=5, batch_seconds=7)
    assert both.tick().decided("clicks").startswith("scale to 5: the budget of the cluster is 10 ")
    both.world.end("orders", state, asked_to_stop_at=1.0 if free else None)
    both.cursor = with_decisions_due(both.cursor)
    assert both.tick().decided("clicks").startswith(f"scale to {7 if free else 5}: ")


def test_what_was_asked_for_since_it_was_last_told_of_counts_where_nobody_answers(clock) -> None:
    both = deployed(CLICKS, ORDERS, cores=12)
    overload(both, CLICKS, executors=4, batch_seconds=7)
    orders = overload(both, ORDERS, executors=5, batch_seconds=7)
    both.tick()
    assert both.by_hand("rescale", stream="orders", target=8, wait_seconds=0).success
    orders.reachable = False
    both.world.streams["clicks"].batch_seconds = 25
    clock[0] += 60
    assert "12 are taken (orders 8), and 3 more" in both.tick().decided("clicks")


def test_a_stream_of_which_nothing_is_known_may_have_all_that_it_may(clock) -> None:
    both = deployed(CLICKS, ORDERS, cores=12)
    overload(both, CLICKS, executors=4)
    overload(both, ORDERS, executors=8)

    def fails(stream: str) -> None:
        if stream == "orders":
            raise ClusterError("its record can't be read")

    both.world.on_find = fails  # and the cursor is lost
    assert both.tick().decided("clicks").startswith("hold: the budget of the cluster is 12 cores, ")


def test_what_fits_is_done_also_where_it_is_less_than_the_minimum_that_was_set() -> None:
    one = deployed(CLICKS, cores=4)
    kept = overload(one, CLICKS, executors=2)
    assert one.by_hand("steer", stream="clicks", action="bounds", minimum=6).success
    tick = one.tick()
    assert tick.decided().startswith("scale to 4: the budget of the cluster is 4 cores, ")
    (request,) = tick.requests
    assert one.run(request).success
    assert kept.requested == 4


def test_what_is_being_restarted_keeps_its_cores_though_it_is_not_recovered() -> None:
    alone = ORDERS.model_copy(update={"recovery": None})
    both = deployed(CLICKS, alone, cores=10)
    overload(both, CLICKS, executors=4)
    overload(both, alone, executors=5, batch_seconds=7)
    both.tick()
    both.world.end("orders")
    both.world.records["orders"] = replace(both.world.records["orders"], desired="restarting")
    both.cursor = with_decisions_due(both.cursor)
    assert both.tick().decided("clicks").startswith("scale to 5: the budget of the cluster is 10 ")


def with_decisions_due(cursor: str | None) -> str | None:
    from dagster_sparkscale.watch.memory import Memory

    memory = Memory.load(cursor)
    for each in memory.streams.values():
        each.decided_at = 0.0
    return memory.dump(keep=memory.streams)


def test_a_budget_that_can_not_hold_the_fewest_executors_is_refused() -> None:
    streams = [scaled("a", min_executors=3), structured("b", executor_cores=2, group="etl")]
    world = World()
    for budget, fault in (
        (Budget(cores=4), "budget: cores = 4: must be at least 5, which the fewest executors of "),
        (Budget(groups={"etl": 1}), "budget: groups: 'etl' = 1: must be at least 2, which "),
        (Budget(groups={"elt": 9}), "'elt': no stream is in this group; must be one of default, "),
        ({"cores": 4}, "must be a Budget, or None"),
    ):
        with pytest.raises(DeclarationError, match=fault.replace("(", r"\(")):
            build_defs(streams, world.cluster, budget=budget)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="cores: give it, or groups"):
        Budget()
    assert build_defs(streams, world.cluster, budget=Budget(cores=5, groups={"etl": 2}))
