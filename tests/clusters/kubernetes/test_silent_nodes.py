"""Pods whose node is cut off stay: what a person has declared gone frees its stream for good, and
one executor makes no outage of a restart."""

import logging
import time
from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.kubernetes import drivers, names
from dagster_sparkscale.clusters.kubernetes.application_driver import ApplicationDriver
from dagster_sparkscale.clusters.kubernetes.applications import APACHE, KINDS
from dagster_sparkscale.clusters.records.store import Record
from tests import clocks
from tests.clusters.kubernetes.launched import NAME, RECORD, driver, executor, launched, runs
from tests.clusters.kubernetes.memory import Client, Server
from tests.clusters.kubernetes.processes import MemoryKubernetes, World, world_of
from tests.clusters.running import newest, stop, stream, submit

CLICKS = stream("clicks")
GONE = replace(RECORD, gone=3, gone_by="somebody")
LABELS = f"dagster-sparkscale/epoch=3,dagster-sparkscale/record={'1' * 16},spark-role=executor"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """Its nodes act as time passes."""
    made = Server(prompt=False)
    clocks.replace(monkeypatch, "sleep", lambda seconds: made.settles())
    return made


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return world_of(monkeypatch)


def hung(server: Server, name: str = "exec-1", **labels: str) -> None:
    executor(server, name, **labels)
    server.loses_node(name)


def of_epoch(cluster: MemoryKubernetes, epoch: int) -> dict[str, str]:
    record = cluster.store().read("clicks")
    assert record is not None
    return names.labels("clicks", epoch, record.id)


# Declared gone.


def test_what_was_declared_gone_goes_with_its_executors_whatever_its_node_says(
    server: Server,
) -> None:
    runs(server)
    server.loses_node(NAME)
    hung(server)
    hung(server, "anothers", **{names.STREAM: "orders"})
    driver(server, GONE).make_way()
    assert server.names("pods") == ["anothers"]
    assert driver(server, GONE).look().fate.reason == "declared gone by somebody"


def test_one_that_came_back_and_has_ended_keeps_its_pod_for_its_log(server: Server) -> None:
    runs(server)
    server.ends(NAME)
    driver(server, GONE).make_way()
    assert server.names("pods") == [NAME]


def test_one_that_was_declared_gone_bars_no_later_start(server: Server) -> None:
    """An earlier release has left its pod, which waits for its node for ever."""
    runs(server, epoch=3)
    server.loses_node(NAME)
    runs(server, epoch=4)
    server.ends("sparkscale-clicks-4")
    driver(server, replace(GONE, epoch=4)).make_way()
    # Another one is not: a later one, or one of another record.
    for record in (replace(RECORD, epoch=4, gone=2), replace(GONE, epoch=4, id="2" * 16)):
        with pytest.raises(AlreadyRunning, match=f"the pod streams/{NAME} is of a driver of"):
            driver(server, record).make_way()


def test_a_stream_lives_on_after_its_driver_was_declared_gone(
    world: World,
) -> None:
    """The whole way, twice: the second failure is recovered as any other."""
    cluster = MemoryKubernetes.of(world)
    gone = submit(cluster, CLICKS)
    executor(world.server, "exec-1", **of_epoch(cluster, 1))
    for pod in (names.of_epoch("clicks", 1), "exec-1"):
        world.server.loses_node(pod)
    assert newest(cluster, "clicks").state is DriverState.UNKNOWN
    with cluster.lease("clicks", "declare_gone") as lease:
        cluster.declare_gone(gone, lease, "somebody")
    assert submit(cluster, CLICKS).epoch == 2
    world.server.ends(names.of_epoch("clicks", 2))
    assert submit(cluster, CLICKS, "recovery").epoch == 3


def test_of_one_that_an_operator_made_the_application_goes_too(server: Server) -> None:
    kind = KINDS[APACHE]
    runs(server)
    server.loses_node(NAME)
    state = {"currentState": {"currentStateSummary": "RunningHealthy"}}
    made = {"metadata": {"name": NAME, "labels": names.labels("clicks", 3, "1" * 16)}}
    Client(server).create(kind, {**made, "status": state})
    ApplicationDriver(Client(server), "clicks", GONE, False, None, APACHE).clear()
    assert server.names("pods") == server.names(kind) == []


# One executor that hangs.


def test_a_driver_that_has_ended_is_followed_whatever_its_executors_nodes_say(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs(server)
    server.ends(NAME)
    hung(server)
    began = time.monotonic()
    driver(server).make_way()
    assert time.monotonic() - began < drivers.KILL_SECONDS / 2
    assert server.names("pods") == ["exec-1", NAME]
    assert (
        "exec-1. When you are certain that the nodes are dead, run kubectl delete pods -n streams "
        f"-l app.kubernetes.io/managed-by=dagster-sparkscale,dagster-sparkscale/stream=clicks,"
        f"{LABELS} --force"
    ) in caplog.text


def test_executors_that_end_are_waited_for_also_beside_one_that_hangs(server: Server) -> None:
    runs(server)
    executor(server, "exec-2")
    server.settles()
    server.ends(NAME)
    hung(server)
    driver(server).make_way()
    assert server.names("pods") == ["exec-1", NAME]


def test_one_whose_node_was_lost_a_moment_ago_is_passed_over_in_the_end(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(drivers, "KILL_SECONDS", 0.0)
    runs(server)
    executor(server, "exec-1")
    server.settles()
    server.silent.add("exec-1")
    server.ends(NAME)
    driver(server).make_way()
    assert "Their driver has ended: passed over" in caplog.text


def test_executors_of_a_driver_that_vanished_bar_a_start_until_they_have_ended(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "KILL_SECONDS", 0.0)
    launched(server)
    del server.objects["pods", NAME]
    hung(server)
    told = (
        rf"exec-1\. When .* run kubectl delete pods -n streams -l .*{LABELS} --force\. Their driver"
    )
    with pytest.raises(ClusterError, match=told):
        driver(server).make_way()
    del server.objects["pods", "exec-1"]
    driver(server).make_way()


def test_a_restart_goes_through_beside_an_executor_that_hangs(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = MemoryKubernetes.of(world)
    submit(cluster, CLICKS)
    hung(world.server, **of_epoch(cluster, 1))
    caplog.set_level(logging.WARNING)
    cluster.check(CLICKS)
    assert "exec-1. When you are certain that the nodes are dead, run kubectl" in caplog.text
    assert "A restart does not wait for them" in caplog.text
    stop(cluster, "clicks", graceful=False, timeout=0.0, to_restart=True)
    assert submit(cluster, CLICKS).epoch == 2


def test_a_driver_whose_end_nobody_could_tell_is_not_stopped_for_a_restart(world: World) -> None:
    cluster = MemoryKubernetes.of(world)
    submit(cluster, CLICKS)
    name = names.of_epoch("clicks", 1)
    world.server.loses_node(name)
    told = (
        f"'clicks': pod streams/{name} on node node-1: it was to be deleted, but its node node-1 "
        "does not answer.*"
        rf"certain that it is dead, run kubectl delete pods -n streams {name} --force"
    )
    with pytest.raises(ClusterError, match=told):
        cluster.check(CLICKS)


def test_doctor_tells_of_executors_whose_nodes_do_not_answer(world: World) -> None:
    cluster = MemoryKubernetes.of(world)
    hung(world.server)
    executor(world.server, "exec-2")
    (line,) = [each for each in cluster.conditions([]) if each.subject == "executors"]
    assert line.text == "the nodes of these do not answer: exec-1"
    assert str(line.cure).endswith("run kubectl delete pods -n streams exec-1 --force")
    assert not line.urgent


def test_of_a_stream_that_was_never_started_nothing_is_declared_gone(server: Server) -> None:
    executor(server, "by-hand", **{names.EPOCH: "0"})
    driver(server, Record.new("1" * 16)).make_way()
    assert server.names("pods") == ["by-hand"]
