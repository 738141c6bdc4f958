"""What a ResourceManager says of applications, and what it means."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters.capacity import Capacity, Free
from dagster_sparkscale.clusters.yarn import applications
from dagster_sparkscale.clusters.yarn.application_fate import _from_note
from dagster_sparkscale.clusters.yarn.applications import Application, ended, log_in, newest, read

TOLD: dict[str, Any] = {
    "id": "application_1795397451890_0001",
    "user": "spark",
    "queue": "root.default",
    "state": "RUNNING",
    "finalStatus": "UNDEFINED",
    "diagnostics": "",
    "applicationTags": "sparkscale-ab12,sparkscale-ab12-3",
    "finishedTime": 0,
    "amContainerLogs": "http://n1:8042/node/containerlogs/container_e17_1795_0001_01_000001/spark",
    "amHostHttpAddress": "n1:8042",
    "trackingUrl": "http://proxy:9046/proxy/application_1795397451890_0001/",
}


def app(**fields: Any) -> Application:
    return read({"apps": {"app": [TOLD | fields]}})[0]


def test_an_application_is_read() -> None:
    assert app() == Application(
        id="application_1795397451890_0001",
        state="RUNNING",
        final_status="UNDEFINED",
        diagnostics="",
        tags=frozenset({"sparkscale-ab12", "sparkscale-ab12-3"}),
        queue="root.default",
        user="spark",
        finished_at=None,
        node="n1:8042",
        container="container_e17_1795_0001_01_000001",
        scheme="http",
        pages="http://proxy:9046/proxy/application_1795397451890_0001/",
    )
    assert app(finishedTime=1795397740241).finished_at == 1795397740.241


def test_one_that_is_not_placed_yet_has_neither_node_nor_container() -> None:
    bare = {"id": "application_1_1", "state": "ACCEPTED", "amContainerLogs": "N/A"}
    found = read({"apps": {"app": [bare]}})[0]
    assert (found.node, found.host, found.container) == (None, None, None)
    assert found.tags == frozenset() and not found.final and found.finished_at is None


def test_a_node_is_asked_as_yarn_speaks() -> None:
    assert app().node_url == "http://n1:8042"
    secure = TOLD["amContainerLogs"].replace("http:", "https:")
    assert app(amContainerLogs=secure).node_url == "https://n1:8042"
    assert app(amContainerLogs=secure, amHostHttpAddress=None).node_url is None


@pytest.mark.parametrize("told", [None, "", "N/A", "UNASSIGNED", "file:///etc/passwd"])
def test_what_is_no_address_of_pages_is_none(told: str | None) -> None:
    assert app(trackingUrl=told).pages is None


@pytest.mark.parametrize("content", [{"apps": None}, {"apps": {}}, {"apps": {"app": []}}])
def test_no_applications_are_none(content: Any) -> None:
    assert read(content) == []


@pytest.mark.parametrize("content", [{}, [], {"apps": {"app": [{}]}}, {"apps": {"app": [1]}}, None])
def test_what_is_no_list_of_applications_is_an_error(content: Any) -> None:
    with pytest.raises(ValueError, match="no list of applications"):
        read(content)


@pytest.mark.parametrize(
    ("node", "host"), [("n1:8042", "n1"), ("[::1]:8042", "::1"), ("10.0.0.7:8042", "10.0.0.7")]
)
def test_the_host_of_the_driver_is_that_of_its_node(node: str, host: str) -> None:
    assert app(amHostHttpAddress=node).host == host


def test_tags_are_as_yarn_keeps_them() -> None:
    assert applications.of_record("AB12") == "sparkscale-ab12"
    assert applications.of_epoch("AB12", 3) == "sparkscale-ab12-3"
    one, other = (applications.of_checkpoint(f"file:///{name}") for name in "ab")
    assert one != other and one == one.lower() and len(one) <= 100


def test_of_several_that_which_lives_counts_and_then_the_last_submitted() -> None:
    first, second = app(id="application_1_0001"), app(id="application_1_0002", state="FAILED")
    third = app(id="application_1_0003", state="KILLED")
    assert newest([second, first, third], "sparkscale-ab12-3") is first
    assert newest([third, second], "sparkscale-ab12-3") is third
    assert newest([first], "sparkscale-ab12-4") is None


SIGNAL = (
    "Application application_1_1 failed 1 times due to AM Container for appattempt_1_1_000001 "
    "exited with  exitCode: 137\nFailing this attempt.Diagnostics: [x]Container killed on request. "
    "Exit code is 137\n[x]Container exited with a non-zero exit code 137. "
)

# YARN shows the end of the container's log.
TAIL = (
    "Application application_1_1 failed 1 times due to AM Container for appattempt_1_1_000001 "
    "exited with  exitCode: 137\nLast 4096 bytes of stderr :\nContainer container_1_1_01_000002 on "
    "host n2 exited with status 3. Exit code is -100\n"
)


@pytest.mark.parametrize(
    ("state", "final", "diagnostics", "reason"),
    [
        ("FINISHED", "SUCCEEDED", "", "its program returned, exit code 0"),
        ("FINISHED", "FAILED", "User application exited with status 1", "exit code 1: KeyError: x"),
        ("FINISHED", "FAILED", "User application exited with status 137", "killed by signal 9"),
        ("FINISHED", "FAILED", "User application exited with status 128", "exit code 128: KeyErr"),
        ("FINISHED", "FAILED", "User application exited with status 255", "exit code 255: KeyErr"),
        ("FAILED", "FAILED", SIGNAL, "killed by signal 9"),
        ("FAILED", "FAILED", TAIL, "killed by signal 9"),
        ("FAILED", "FAILED", "exitCode: -104\nbeyond memory", "exitCode: -104 beyond memory"),
        ("FAILED", "FAILED", "no such queue\n\tat a.b.C", "no such queue"),
        ("FAILED", "FAILED", "", "failed by YARN"),
        ("KILLED", "KILLED", "was killed by user x at 1.2.3.4", "was killed by user x at 1.2.3.4"),
        ("KILLED", "KILLED", "", "killed by YARN"),
    ],
)
def test_why_it_has_ended_is_told(state: str, final: str, diagnostics: str, reason: str) -> None:
    found = app(state=state, finalStatus=final, diagnostics=diagnostics)
    assert found.final
    assert ended(found, "KeyError: x").reason.startswith(reason)


def test_without_a_word_of_what_it_died_of_the_exit_code_stands_alone() -> None:
    found = app(state="FINISHED", finalStatus="FAILED", diagnostics="... exited with status 7")
    assert ended(found) == ("exit code 7", "exit code")


@pytest.mark.parametrize(
    ("note", "how", "fenced"),
    [
        ({"reason": "exit code 75: x", "how": "exit code", "code": 75}, "exit code", True),
        ({"reason": "worded anew", "how": "exit code", "code": 75}, "exit code", True),
        ({"reason": "exit code 1", "how": "exit code", "code": 1}, "exit code", False),
        ({"reason": "exit code 75 of something else", "how": None, "code": None}, None, False),
        # Notes of a release that wrote words alone.
        ({"reason": "exit code 75: x"}, "exit code", True),
        ({"reason": "killed by signal 9"}, "exit code", False),
        ({"reason": "killed by YARN"}, None, False),
    ],
)
def test_a_note_of_an_end_says_how_it_ended(note: dict[str, Any], how: Any, fenced: bool) -> None:
    found = _from_note(note)
    assert (found.fate.reason, found.fate.how) == (note["reason"], how)
    assert found.fenced == (note["reason"] if fenced else None)


@pytest.mark.parametrize(
    ("state", "diagnostics", "lost"),
    [
        ("FAILED", "exitCode: -100 Container released on a *lost* node", True),
        ("FAILED", "exitCode: -104", False),
        ("FAILED", SIGNAL, False),
        ("FAILED", TAIL, False),
        ("FAILED", "", False),
        ("RUNNING", "exitCode: -100", False),
    ],
)
def test_one_given_up_with_its_node_may_live(state: str, diagnostics: str, lost: bool) -> None:
    assert app(state=state, diagnostics=diagnostics).lost is lost


def test_one_that_waits_says_for_what() -> None:
    said = applications.waiting_for(app(state="ACCEPTED", diagnostics="AM limit\n exceeded "))
    assert (
        said == "application_1795397451890_0001, ACCEPTED in queue root.default: AM limit exceeded"
    )
    bare = applications.waiting_for(app(state="NEW"))
    assert bare == "application_1795397451890_0001, NEW in queue root.default"


@given(st.text())
def test_diagnostics_come_in_one_short_line(text: str) -> None:
    line = applications.in_one_line(text)
    assert len(line) <= 300 and len(line.splitlines()) <= 1


def test_long_diagnostics_are_cut() -> None:
    assert applications.in_one_line("a" * 300) == "a" * 300
    assert applications.in_one_line("a" * 301) == "a" * 297 + "..."


@pytest.mark.parametrize("log", ["", "one\n", "one\ntwo", "\nLogContents:\ntwice\n"])
def test_a_log_is_freed_of_what_its_node_says_around_it(log: str) -> None:
    around = f"Container: c\n====\nLogType:stdout\nLogContents:\n{log}\nEnd of LogType:stdout.x\n*"
    assert log_in(around) == log


def test_what_has_nothing_around_it_is_a_log_too() -> None:
    assert log_in("plain\n") == "plain\n"


NODES = {
    "nodes": {
        "node": [
            {
                "id": "n1:45454",
                "state": "RUNNING",
                "usedVirtualCores": 2,
                "availableVirtualCores": 4,
                "usedMemoryMB": 1024,
                "availMemoryMB": 3072,
            },
            {
                "id": "n2:45454",
                "state": "LOST",
                "usedVirtualCores": 0,
                "availableVirtualCores": 0,
                "usedMemoryMB": 0,
                "availMemoryMB": 0,
            },
        ]
    }
}


def test_the_room_is_that_of_nodes_that_run() -> None:
    line = "n1:45454: 2 of 6 cores and 1024 of 4096 MB in use"
    assert applications.room(NODES) == Capacity(6, 4, 1, (line,), (Free(None, 3072.0),))
    assert applications.room({"nodes": None}) == Capacity(0, 0, 0)


@pytest.mark.parametrize("content", [{}, None, {"nodes": {"node": [{"state": "RUNNING"}]}}])
def test_what_is_no_list_of_nodes_is_an_error(content: Any) -> None:
    with pytest.raises(ValueError, match="no list of nodes"):
        applications.room(content)


def test_the_last_of_those_that_have_ended_is_the_one_with_the_highest_number() -> None:
    ids = [f"application_1795397451890_{number:04}" for number in (9998, 10000, 9999)]
    apps = [app(id=each, state="KILLED", applicationTags="t") for each in ids]
    found = newest(apps, "t")
    assert found is not None and found.id.endswith("_10000")
