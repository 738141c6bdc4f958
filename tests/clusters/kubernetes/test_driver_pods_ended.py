"""One start of a stream on an API server in memory: made way for, ended."""

import time
from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.kubernetes import drivers, names, notes
from dagster_sparkscale.clusters.kubernetes.api import Unreachable
from dagster_sparkscale.clusters.kubernetes.drivers import KEPT_LINES
from dagster_sparkscale.clusters.records.store import Record
from tests import clocks
from tests.clusters.kubernetes.launched import (
    NAME,
    PLACE,
    RECORD,
    driver,
    executor,
    fails,
    launched,
    runs,
)
from tests.clusters.kubernetes.memory import Client, Server
from tests.clusters.kubernetes.pods import ended


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """Its nodes act as time passes, and no time does."""
    made = Server(prompt=False)
    clocks.replace(monkeypatch, "sleep", lambda seconds: made.settles())
    return made


def test_a_start_is_refused_while_the_driver_runs_or_may_run(server: Server) -> None:
    runs(server)
    before = dict(server.objects)
    with pytest.raises(AlreadyRunning, match=f"'clicks' is running already, epoch 3, {PLACE} on"):
        driver(server).make_way()
    silent = fails(server, "GET pods", Unreachable("no answer"))
    with pytest.raises(AlreadyRunning, match="'clicks' is unknown already, epoch 3"):
        driver(server, client=silent).make_way()
    assert server.objects == before


def test_a_start_is_refused_while_a_driver_lives_that_is_not_remembered(server: Server) -> None:
    """An older record was put back, or it was deleted."""
    runs(server, epoch=5)
    runs(server, epoch=3)
    server.ends(NAME)
    told = (
        r"the pod streams/sparkscale-clicks-5 is of a driver of 'clicks' that is not the one "
        r"remembered \(epoch 3\): was its ConfigMap sparkscale\.clicks deleted"
    )
    with pytest.raises(AlreadyRunning, match=told):
        driver(server).make_way()
    with pytest.raises(AlreadyRunning, match=r"remembered \(epoch 0\)"):
        driver(server, Record.new("2" * 16)).make_way()
    assert server.running() == ["sparkscale-clicks-5"]
    server.ends("sparkscale-clicks-5")
    driver(server).make_way()
    driver(server, Record.new("2" * 16)).make_way()


def test_a_driver_of_another_stream_is_in_nobodys_way(server: Server) -> None:
    launched(server, 5, stream="orders")
    server.settles()
    driver(server).make_way()
    assert server.running() == ["sparkscale-orders-5"]


def test_a_pod_that_should_be_gone_long_since_may_run_on_its_silent_node(server: Server) -> None:
    for name in [runs(server, 3), runs(server, 5)]:
        pod = server.objects["pods", name]["metadata"]
        pod["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    state = driver(server).look().fate.state
    assert state is DriverState.UNKNOWN
    with pytest.raises(AlreadyRunning, match="'clicks' is unknown already"):
        driver(server).make_way()
    with pytest.raises(AlreadyRunning, match="was made just now"):
        driver(server).clear()
    # A later one, that is not remembered, bars a start likewise.
    gone = replace(RECORD, gone=3)
    assert driver(server, gone).took()
    with pytest.raises(AlreadyRunning, match="sparkscale-clicks-5 is of a driver of 'clicks'"):
        driver(server, gone).make_way()


def test_way_is_made_for_by_what_has_ended_with_all_its_executors(server: Server) -> None:
    runs(server)
    server.ends(NAME)
    executor(server, "mine")
    executor(server, "older", **{names.EPOCH: "2"})
    executor(server, "anothers", **{names.STREAM: "orders"})
    executor(server, "of-another-store", **{names.RECORD: "2" * 16})
    server.settles()
    driver(server).make_way()
    assert server.names("pods") == ["anothers", "of-another-store", "older", NAME]
    assert server.names("secrets") == [NAME], "it tells of it until the next has started"


def test_the_secret_of_a_start_without_a_pod_goes_so_that_none_comes_of_it(server: Server) -> None:
    launched(server)
    del server.objects["pods", NAME]
    driver(server).clear()
    assert server.names("secrets") == []


def test_a_note_of_a_start_without_a_pod_stays(server: Server) -> None:
    launched(server)
    del server.objects["pods", NAME]
    notes.leave(Client(server), NAME, notes.Note(77.0, "killed"))
    driver(server).clear()
    assert server.names("secrets") == [NAME]


def test_nothing_is_cleared_of_a_stream_that_was_never_started(server: Server) -> None:
    executor(server, "by-hand", **{names.EPOCH: "0"})
    driver(server, Record.new("1" * 16)).clear()
    assert server.calls == ["POST pods"]


def test_a_pod_that_was_made_since_it_was_looked_for_is_not_cleared_away(server: Server) -> None:
    launched(server)
    told = f"the pod streams/{NAME} of 'clicks' was made just now, by an operation that had been"
    with pytest.raises(AlreadyRunning, match=told):
        driver(server).clear()
    # A person has said that it is gone, not of an earlier one.
    with pytest.raises(AlreadyRunning):
        driver(server, replace(RECORD, gone=2)).clear()
    assert server.names("pods") == [NAME]
    driver(server, replace(RECORD, gone=3)).clear()
    assert server.names("pods") == []


def test_a_pod_that_is_made_while_its_secret_is_deleted_is_ended(server: Server) -> None:
    """It was made of the Secret at the last moment, and its node has started it."""
    launched(server)
    waiting = server.objects.pop(("pods", NAME))

    def wake_up(call: str) -> None:
        if call == f"DELETE secrets/{NAME}":
            server.objects["pods", NAME] = waiting
            server.nodes_act()

    driver(server, client=Client(server, wake_up)).clear()
    assert server.ran == [NAME]
    assert server.names("pods") == server.names("secrets") == []


# Ending it.


def test_one_that_is_killed_leaves_a_note_with_the_end_of_its_log(server: Server) -> None:
    runs(server)
    executor(server, "mine")
    server.logs[NAME] = "\n".join(str(line) for line in range(KEPT_LINES + 50))
    graces = []

    class Graces(Client):
        def delete(self, kind: str, name: str, uid: Any = None, grace: Any = None) -> bool:
            graces.append((kind, grace))
            return super().delete(kind, name, uid, grace)

        def delete_all(self, kind: str, grace: Any = None, **query: str) -> None:
            graces.append((kind, grace))
            super().delete_all(kind, grace, **query)

    before = time.time()
    driver(server, client=Graces(server)).kill()
    assert server.names("pods") == []
    note = notes.read(server.objects["secrets", NAME])
    assert note is not None
    assert (note.reason, note.took) == ("killed", True)
    assert before <= note.at <= time.time()
    assert note.log.splitlines() == [str(line) for line in range(50, KEPT_LINES + 50)]
    assert graces == [("pods", 1), ("pods", 1)]
    assert driver(server).log(2) == f"{KEPT_LINES + 48}\n{KEPT_LINES + 49}"


def test_one_without_a_log_is_killed_all_the_same(server: Server) -> None:
    runs(server)
    silent = fails(server, f"GET pods/{NAME}/log", Unreachable("no answer"))
    driver(server, client=silent).kill()
    note = notes.read(server.objects["secrets", NAME])
    assert note is not None and note.log == ""


def test_to_kill_one_that_has_no_pod_makes_sure_that_none_comes(server: Server) -> None:
    launched(server)
    del server.objects["pods", NAME]
    driver(server).kill()
    assert server.names("secrets") == []


def test_a_driver_that_its_silent_node_does_not_let_go_of_is_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "KILL_SECONDS", 0.0)
    runs(server)
    server.silent.add(NAME)
    told = (
        f"'clicks': the pod streams/{NAME} was deleted 0 s ago and is there still: its node does "
        "not answer. When you are certain that the node is dead, run kubectl delete pods -n "
        f"streams {NAME} --force"
    )
    with pytest.raises(ClusterError, match=told):
        driver(server).kill()


def was_deleted(server: Server) -> bool:
    return f"DELETE pods/{NAME}" in server.calls


def test_a_silent_api_server_is_asked_on_while_a_pod_is_waited_for(server: Server) -> None:
    runs(server)
    silences = []

    def silent(call: str) -> None:
        if call == f"GET pods/{NAME}" and was_deleted(server) and len(silences) < 3:
            silences.append(call)
            raise Unreachable("no answer")

    driver(server, client=Client(server, silent)).kill()
    assert len(silences) == 3 and server.names("pods") == []


def test_an_api_server_that_stays_silent_is_told_of_in_the_end(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "KILL_SECONDS", 0.0)
    runs(server)

    def silent(call: str) -> None:
        if was_deleted(server):
            raise Unreachable("no answer")

    with pytest.raises(Unreachable, match="no answer"):
        driver(server, client=Client(server, silent)).kill()


def test_whether_it_may_have_left_its_mark(server: Server) -> None:
    assert driver(server).took(), "nothing is known of it"
    runs(server)
    assert driver(server).took()
    server.tells(NAME, "Failed", ended(3, message='{"fenced": "another has it"}'))
    assert not driver(server).took()
    del server.objects["pods", NAME]
    assert driver(server).took()
    for took in (False, True):
        notes.leave(Client(server), NAME, notes.Note(77.0, "killed", took=took))
        assert driver(server).took() is took
