"""All streams at once, while streams are started and while the API server has hiccups."""

from collections.abc import Callable
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.api import Unreachable
from dagster_sparkscale.clusters.kubernetes.snapshot import take_snapshot
from tests.clusters.kubernetes.memory import Client, Server
from tests.clusters.kubernetes.processes import MemoryKubernetes, World, world_of
from tests.clusters.running import stream, submit

CLICKS, ORDERS = stream("clicks"), stream("orders")
KIND = "sparkoperator.k8s.io/v1beta2/sparkapplications"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return world_of(monkeypatch)


def glancing(world: World, call: int, deed: Callable[[], Any]) -> MemoryKubernetes:
    """A cluster at a snapshot, while somebody does something before that call of it."""
    calls = 0

    def before(_: str) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            deed()

    snapshot = MemoryKubernetes.of(world, Client(world.server, before)).snapshot()
    assert calls == 3, "a few calls, whatever the number of streams"
    return snapshot


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_a_stream_that_is_started_anew_meanwhile_is_told_of_as_it_was_or_is(
    world: World, call: int
) -> None:
    """Never by the record of its old driver and the objects of its new one: by these it has ended
    without a trace."""
    submit(MemoryKubernetes.of(world), CLICKS)
    world.server.ends(names.of_epoch("clicks", 1), 3)

    def restart() -> None:
        submit(MemoryKubernetes.of(world), CLICKS)
        world.server.settles()

    driver = glancing(world, call, restart).find("clicks")
    assert driver is not None
    told = (driver.epoch, driver.state, driver.exit_reason)
    if call == 4:
        assert told == (1, DriverState.FAILED, "exit code 3")
    else:
        assert told == (2, DriverState.RUNNING, None)


def test_at_a_glance_is_told_what_is_told_of_each(world: World) -> None:
    cluster = MemoryKubernetes.of(world)
    for each in (CLICKS, ORDERS):
        submit(cluster, each)
    world.server.ends(names.of_epoch("orders", 1), 3)
    snapshot = cluster.snapshot()
    one_by_one = [cluster.find(name) for name in ("clicks", "orders")]
    world.server.calls.clear()
    assert [snapshot.find(name) for name in ("clicks", "orders")] == one_by_one
    assert snapshot.store().streams() == ["clicks", "orders"]
    assert snapshot.find("never") is None
    assert world.server.calls == []
    # As it was: the cluster itself goes on asking.
    world.server.ends(names.of_epoch("clicks", 1), 3)
    assert state(snapshot.find("clicks")) is DriverState.RUNNING
    assert state(cluster.find("clicks")) is DriverState.FAILED


def state(driver: Driver | None) -> DriverState | None:
    return driver and driver.state


def made(server: Server, kind: str, name: str, **labels: str) -> None:
    metadata = {"name": name, "labels": {key.replace("_", "-"): labels[key] for key in labels}}
    Client(server).create(kind, {"metadata": metadata, "spec": {}})


def test_only_what_is_of_streams_is_looked_at() -> None:
    server = Server(prompt=False)
    of = {names.STREAM: "clicks"}
    for kind in ("pods", "secrets", KIND):
        made(server, kind, "ours", **of, spark_role="driver")
        made(server, kind, "theirs")
    made(server, "pods", "an-executor", **of, spark_role="executor")
    seen = take_snapshot(Client(server))
    assert (list(seen.pods), list(seen.secrets), seen.applications) == (["ours"], ["ours"], {})
    assert seen.pods["ours"] == server.objects["pods", "ours"]
    asked = len(server.calls)
    assert list(take_snapshot(Client(server), KIND).applications) == ["ours"]
    assert server.calls[asked:] == [f"GET {KIND}", "GET pods", "GET secrets", "GET configmaps"]


def event(server: Server, name: str, kind: str, pod: str) -> None:
    of = {"kind": kind, "name": pod}
    body = {"metadata": {"name": name}, "involvedObject": {key: of[key] for key in of if of[key]}}
    Client(server).create("events", body)


def test_events_are_asked_for_once_and_told_by_pod() -> None:
    server = Server()
    event(server, "a", "Pod", "clicks-1")
    event(server, "b", "Pod", "clicks-1")
    event(server, "c", "Pod", "orders-1")
    event(server, "d", "Service", "clicks-1")
    event(server, "e", "Pod", "")
    seen = take_snapshot(Client(server))
    asked = server.calls.count("GET events")
    assert asked == 0, "only if somebody wants to know"
    assert [each["metadata"]["name"] for each in seen.events("clicks-1")] == ["a", "b"]
    assert [each["metadata"]["name"] for each in seen.events("orders-1")] == ["c"]
    assert seen.events("never") == []
    assert server.calls.count("GET events") == 1


def test_what_can_not_be_listed_is_no_glance() -> None:
    """Else streams would be missing, or their pods."""

    def fail(call: str) -> None:
        if call == "GET secrets":
            raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        take_snapshot(Client(Server(), fail))
