"""One start of a stream on an API server in memory: told of, its agent, its log."""

import time
from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable
from dagster_sparkscale.clusters.kubernetes import drivers, notes
from dagster_sparkscale.clusters.kubernetes.api import Refused, Unreachable
from dagster_sparkscale.clusters.kubernetes.drivers import LAUNCHING, NEW, PodDriver
from dagster_sparkscale.clusters.kubernetes.manifests import TOKEN
from dagster_sparkscale.clusters.kubernetes.snapshot import Snapshot
from dagster_sparkscale.clusters.records.store import Holding, Process, Record, Submission
from tests.clusters.kubernetes.launched import (
    HERE,
    NAME,
    PLACE,
    RECORD,
    driver,
    fails,
    launched,
    runs,
    tell,
)
from tests.clusters.kubernetes.memory import Client, Server
from tests.clusters.kubernetes.pods import ended


@pytest.fixture
def server() -> Server:
    """Its nodes act when they are told to."""
    return Server(prompt=False)


def test_of_one_that_runs_all_is_told_that_is_known(server: Server) -> None:
    runs(server)
    seen = driver(server).look()
    assert (seen.fate.state, seen.where) == (DriverState.RUNNING, f"{PLACE} on node node-1")
    assert seen.agent_url == f"https://{NAME}.streams.svc:7080"
    assert seen.ui_url == f"http://{NAME}.streams.svc:4040"
    assert seen.app_id == f"{NAME}-{'1' * 8}"
    assert (seen.stopped, seen.fenced) == (None, None)


def test_of_one_that_waits_is_told_for_what_and_no_address(server: Server) -> None:
    launched(server)
    tell(server, "FailedMount", "no such volume")
    seen = driver(server).look()
    assert seen.fate.state is DriverState.STARTING
    assert seen.where == f"{PLACE}, FailedMount: no such volume"
    assert (seen.agent_url, seen.ui_url) == (None, None)
    assert seen.app_id is not None
    # An event only explains.
    refused = fails(server, "GET events", Refused("no", 403, "Forbidden"))
    assert driver(server, client=refused).look().where == PLACE


def test_of_one_that_has_ended_is_told_how_and_what_it_said_last(server: Server) -> None:
    runs(server)
    tell(server, "Warning", "that is of no use any more")
    server.tells(NAME, "Failed", ended(1, message='{"raised": "ValueError: no such"}'))
    seen = driver(server).look()
    assert (seen.fate.state, seen.fate.reason) == (
        DriverState.FAILED,
        "exit code 1: ValueError: no such",
    )
    assert seen.fate.ended_at is not None and seen.where == f"{PLACE} on node node-1"
    assert (seen.agent_url, seen.ui_url) == (None, None)
    server.tells(NAME, "Failed", ended(3, message='{"fenced": "another has it"}'))
    assert driver(server).look().fenced == "another has it"
    # By a signal it was not what it raised that ended it.
    server.tells(NAME, "Failed", ended(137, message='{"raised": "ValueError: no such"}'))
    assert driver(server).look().fate.reason == "killed by signal 9"
    assert "GET events" not in server.calls


def test_of_one_whose_pod_is_gone_is_told_what_explains_it(server: Server) -> None:
    tell(server, "Preempted", "by a pod of higher priority")
    seen = driver(server).look()
    assert seen.fate.state is DriverState.FAILED
    assert seen.fate.reason == "its pod was deleted (Preempted: by a pod of higher priority)"
    assert (seen.app_id, seen.where) == (None, PLACE)
    other = driver(server, replace(RECORD, epoch=4)).look()
    assert str(other.fate.reason).startswith("it has no pod")


def test_where_kubernetes_can_not_be_asked_nothing_is_told_but_why(server: Server) -> None:
    runs(server)
    for error in (Unreachable("no answer"), Refused("you may not", 403, "Forbidden")):
        seen = driver(server, client=fails(server, "GET", error)).look()
        assert (seen.fate.state, seen.fate.reason) == (DriverState.UNKNOWN, str(error))
        assert (seen.where, seen.app_id, seen.agent_url) == (PLACE, None, None)


def test_of_one_on_a_silent_node_its_agent_may_tell(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Agent:
        def status(self, timeout: float, window: float) -> None:
            asked.append((timeout, window))

    runs(server)
    server.objects["pods", NAME]["status"]["phase"] = "Unknown"
    monkeypatch.setattr(PodDriver, "agent", lambda self: Agent())
    seen = driver(server).look()
    assert (seen.fate.state, seen.fate.reason) == (DriverState.RUNNING, None)
    assert seen.agent_url is not None
    assert asked == [(2.0, 0.0)]  # a tick waits for it

    def silent(self: PodDriver) -> Any:
        raise AgentUnreachable("it does not answer")

    monkeypatch.setattr(PodDriver, "agent", silent)
    seen = driver(server).look()
    assert (seen.fate.state, seen.agent_url) == (DriverState.UNKNOWN, None)
    assert "does not answer" in str(seen.fate.reason)


def test_one_that_was_declared_gone_has_failed_whatever_is_seen_of_it(server: Server) -> None:
    gone = replace(RECORD, gone=3, gone_by="somebody")
    told = DriverState.FAILED, "declared gone by somebody"
    fate = driver(server, gone).look().fate
    assert (fate.state, fate.reason) == told
    runs(server)
    seen = driver(server, gone).look()
    assert (seen.fate.state, seen.fate.reason) == told and seen.where == f"{PLACE} on node node-1"
    earlier = replace(gone, gone=2)
    assert driver(server, earlier).look().fate.state is DriverState.RUNNING
    server.ends(NAME)
    assert driver(server, gone).look().fate.reason == "exit code 1"


def test_a_note_tells_of_one_whose_pod_is_gone(server: Server) -> None:
    launched(server)
    del server.objects["pods", NAME]
    notes.leave(Client(server), NAME, notes.Note(77.0, "killed"))
    fate = driver(server).look().fate
    assert (fate.state, fate.reason, fate.ended_at) == (DriverState.FAILED, "killed", 77.0)


def under_way(since: float, at: float, process: Process = HERE) -> Record:
    history = (Submission(3, at, "manual"),)
    return replace(RECORD, history=history, lease=Holding("start", 1, since, process))


def test_a_start_is_under_way_while_it_has_the_lease_that_it_began_with(server: Server) -> None:
    now = time.time()
    fate = driver(server, under_way(now, now)).look().fate
    assert fate.state is DriverState.STARTING
    # The same process has taken another lease since, such as a daemon that goes on to stop it.
    later = driver(server, under_way(now + 0.5, now)).look().fate
    assert later.state is DriverState.FAILED
    others = under_way(now, now, replace(HERE, pid=8))
    assert driver(server, others).look().fate.state is DriverState.FAILED
    long_ago = now - LAUNCHING - 1
    fate = driver(server, under_way(long_ago, long_ago)).look().fate
    assert fate.state is DriverState.FAILED


def test_what_all_streams_were_listed_with_is_looked_at_first(server: Server) -> None:
    runs(server)
    pods = {NAME: server.objects["pods", NAME]}
    secrets = {NAME: server.objects["secrets", NAME]}
    snapshot = Snapshot(Client(server), pods=pods, secrets=secrets)
    server.calls.clear()
    assert driver(server, snapshot=snapshot).look().fate.state is DriverState.RUNNING
    assert driver(server, snapshot=snapshot).agent().token == "word"
    assert server.calls == []
    # One that was not listed is looked for while it is new.
    now = time.time()
    listed = Snapshot(Client(server))
    for age, state in ((NEW - 10, DriverState.RUNNING), (NEW + 10, DriverState.FAILED)):
        record = replace(RECORD, history=(Submission(3, now - age, "manual"),))
        assert driver(server, record, snapshot=listed).look().fate.state is state
    tell(server, "Preempted", "for room")
    fate = driver(server, snapshot=Snapshot(Client(server))).look().fate
    assert fate.reason == "its pod was deleted (Preempted: for room)"


# Its agent and its log.


def test_its_agent_is_known_by_its_secret(server: Server) -> None:
    runs(server)
    agent = driver(server).agent()
    assert isinstance(agent, RemoteAgent)
    assert (agent.stream, agent.epoch, agent.token) == ("clicks", 3, "word")
    assert (agent.url, agent.certificate) == (f"https://{NAME}.streams.svc:7080", "cert")
    assert agent.connect is None


def test_its_agent_may_be_reached_through_the_api_server(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(drivers, "forwarded", lambda *which: asked.append(which))
    runs(server)
    client = Client(server)
    agent = driver(server, client=client, forward=True).agent()
    assert agent.connect is not None
    agent.connect(5.0)
    assert asked == [(client.access, "streams", NAME, 7080, 5.0)]


def test_there_is_no_agent_without_its_token(server: Server) -> None:
    runs(server)
    server.objects["secrets", NAME]["data"].pop(TOKEN)
    told = f"no Secret streams/{NAME} with its token; the driver is still starting, or has ended"
    with pytest.raises(AgentUnreachable, match=told):
        driver(server).agent()
    del server.objects["secrets", NAME]
    with pytest.raises(AgentUnreachable, match=told):
        driver(server).agent()


def test_the_agent_of_a_pod_that_waits_has_not_begun(server: Server) -> None:
    launched(server)
    with pytest.raises(AgentUnreachable, match="its pod waits: it was made a moment ago"):
        driver(server).agent()
    tell(server, "FailedMount", "no such volume")
    with pytest.raises(AgentUnreachable, match="its pod waits: FailedMount: no such volume"):
        driver(server).agent()


def test_has_begun_is_denied_only_where_that_is_known(server: Server) -> None:
    assert driver(server).has_begun()
    launched(server)
    assert not driver(server).has_begun()
    for error in (Unreachable("no answer"), Refused("no", 403, "Forbidden")):
        assert driver(server, client=fails(server, "GET", error)).has_begun()
    server.settles()
    assert driver(server).has_begun()


def test_the_end_of_its_log_is_its_pods_or_else_its_notes(server: Server) -> None:
    runs(server)
    server.logs[NAME] = "one\ntwo\nthree\n"
    asked: list[Any] = []

    class Asked(Client):
        def text(self, *what: str, **query: str) -> str:
            asked.append((what, query))
            return super().text(*what, **query)

    assert driver(server, client=Asked(server)).log(2) == "two\nthree"
    assert asked == [(("pods", NAME, "log"), {"tailLines": "2", "container": "driver"})]
    server.logs[NAME] = ""
    notes.leave(Client(server), NAME, notes.Note(77.0, "killed", log="a\nb\nc"))
    assert driver(server).log(2) == "", "what its pod says counts"
    del server.objects["pods", NAME]
    assert driver(server).log(2) == "b\nc"
    del server.objects["secrets", NAME]
    assert driver(server).log(2) == ""


def test_a_log_that_may_not_be_read_is_not_taken_for_an_empty_one(server: Server) -> None:
    runs(server)
    path = f"GET pods/{NAME}/log"
    with pytest.raises(Refused):
        driver(server, client=fails(server, path, Refused("no", 403, "Forbidden"))).log(5)
    with pytest.raises(Unreachable):
        driver(server, client=fails(server, path, Unreachable("no answer"))).log(5)
    waiting = fails(server, path, Refused("waiting to start", 400, "BadRequest"))
    assert driver(server, client=waiting).log(5) == ""
