"""All streams at once, while streams are started and while the API server has hiccups."""

import json
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.kubernetes import listing, names, pod_fate
from dagster_sparkscale.clusters.kubernetes.access import Access
from dagster_sparkscale.clusters.kubernetes.api import Api, Unreachable
from dagster_sparkscale.clusters.kubernetes.snapshot import take_snapshot
from dagster_sparkscale.clusters.records.store import Record
from tests.clusters.kubernetes.memory import Client, Server
from tests.clusters.kubernetes.processes import MemoryKubernetes, World, world_of
from tests.clusters.running import stream, submit
from tests.waiting import HANGS

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
    asked = len(server.calls)
    assert list(take_snapshot(Client(server), KIND).applications) == ["ours"]
    assert server.calls[asked:] == [f"GET {KIND}", "GET pods", "GET secrets", "GET configmaps"]


def event(server: Server, name: str, kind: str, pod: str, reason: str = "FailedMount") -> None:
    of = {"kind": kind, "name": pod}
    body = {
        "metadata": {"name": name},
        "involvedObject": {key: of[key] for key in of if of[key]},
        "type": "Warning" if reason.startswith("Failed") else "Normal",
        "reason": reason,
        "message": name,
    }
    Client(server).create("events", body)


def test_events_are_asked_for_once_and_told_by_pod() -> None:
    server = Server()
    event(server, "a", "Pod", "clicks-1")
    event(server, "b", "Pod", "clicks-1", "Killing")
    event(server, "c", "Pod", "orders-1")
    event(server, "d", "Service", "clicks-1")
    event(server, "e", "Pod", "")
    event(server, "f", "Pod", "clicks-1", "Pulled")  # which explains nothing
    seen = take_snapshot(Client(server))
    asked = server.calls.count("GET events")
    assert asked == 0, "only if somebody wants to know"
    assert [each["message"] for each in seen.events("clicks-1")] == ["a", "b"]
    assert [each["message"] for each in seen.events("orders-1")] == ["c"]
    assert seen.events("never") == []
    assert server.calls.count("GET events") == 1


def test_what_can_not_be_listed_is_no_glance() -> None:
    """Else streams would be missing, or their pods."""

    def fail(call: str) -> None:
        if call == "GET secrets":
            raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        take_snapshot(Client(Server(), fail))


class Fat(Api):
    """An API server whose objects have all that those of a real one have, and more."""

    def __init__(self, streams: int) -> None:
        super().__init__(Access("https://in.memory", True, dict), "streams")
        self.streams, self.largest = streams, 0

    def _answer(self, method: str, path: str, query: Mapping[str, str] | None, body: Any) -> bytes:
        assert query is not None
        kind, first = path.rpartition("/")[2], int(query.get("continue") or 0)
        last = min(self.streams, first + int(query["limit"]))
        items = [self._object(kind, number) for number in range(first, last)]
        following = {"continue": str(last)} if last < self.streams else {}
        page = json.dumps({"items": items, "metadata": following}).encode()
        self.largest = max(self.largest, len(page))
        return page

    def _object(self, kind: str, number: int) -> dict[str, Any]:
        stream = f"s{number}"
        name = names.of_record(stream) if kind == "configmaps" else names.of_epoch(stream, 1)
        metadata = {
            "name": name,
            "annotations": {names.NAME: stream},
            "labels": names.labels(stream, 1, "1" * 16),
            "managedFields": [{"fieldsV1": {f"f:{key}": {} for key in range(300)}}],
        }
        state = {"running": {"startedAt": "2027-01-15T07:59:00Z"}}
        told = {"name": "driver", "state": state, "started": True}
        env = [{"name": f"SPARK_{key}", "value": "x" * 80} for key in range(100)]
        container = {"name": "driver", "env": env, "resources": {"limits": {"memory": "1433Mi"}}}
        record = json.dumps(asdict(replace(Record.new("1" * 16), revision=1, epoch=1)))
        secret = {"token": "dG9rZW4=", "tls.key": "eHh4" * 600, "spark.properties": "eHh4" * 3000}
        return {
            "metadata": metadata,
            "spec": {"nodeName": "n1", "containers": [container]},
            "status": {"phase": "Running", "containerStatuses": [told]},
            "data": {"content": record} if kind == "configmaps" else secret,
        }


@pytest.mark.clusters
def test_of_thousands_only_what_tells_of_drivers_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 20)
    monkeypatch.setattr(listing, "SECONDS", HANGS)  # what counts memory is slow
    server, streams = Fat(200), 200
    tracemalloc.start()
    try:
        seen = take_snapshot(server)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(seen.pods) == len(seen.secrets) == len(seen.records) == streams
    # Whole, an object of each kind is some 20 KB as JSON, and several times that in memory.
    assert server.largest / listing.PAGE > 15_000
    assert held / streams < 10_000
    # One page besides that, as it is read and parsed, and as this server has made it.
    assert most - held < 12 * server.largest
    pod = seen.pods[names.of_epoch("s7", 1)]
    assert pod_fate.fate_of(pod, 0.0).state is DriverState.RUNNING
    assert "tls.key" not in seen.secrets[names.of_epoch("s7", 1)]["data"]
