"""Asking ResourceManagers, some of which stand by, are down, or are something else."""

import errno
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.yarn.application_fate import Yarn
from dagster_sparkscale.clusters.yarn.applications import Application
from dagster_sparkscale.clusters.yarn.cluster import YarnCluster
from dagster_sparkscale.clusters.yarn.launch import Client
from dagster_sparkscale.clusters.yarn.resource_manager import (
    ResourceManager,
    Unanswered,
    Web,
    log,
    runs,
)
from dagster_sparkscale.clusters.yarn.snapshot import ONE_BY_ONE, TOGETHER, take_snapshot
from dagster_sparkscale.declare.declaration import DeclarationError
from tests.clusters.answering import Agent, drips
from tests.clusters.running import PROGRAMS, SECRET, stream, submit
from tests.clusters.test_agent_tls import by_name
from tests.driver import serving

ME = Web("me")
DOWN = "http://127.0.0.1:9"


@contextmanager
def answering(code: int, body: Any = None, location: str = "") -> Iterator[tuple[str, list[str]]]:
    """A server that answers everything so; its address, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            asked.append(f"{self.command} {self.path} {self.rfile.read(length).decode()}".strip())
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(code)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_PUT = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("whole", [False, True])
def test_who_drips_is_given_up(agent: Agent, whole: bool) -> None:
    sent = drips(agent, json.dumps({"apps": None}).encode(), whole=whole)
    with pytest.raises(OSError, match="timed out"):
        ME.ask("GET", agent.url, {}, timeout=0.5)
    assert not sent.is_set()


def test_over_tls_only_who_is_known_is_asked_and_given_up_where_it_drips(tmp_path: Path) -> None:
    there = Agent(serving.tls(tmp_path, by_name("127.0.0.1")))
    known = Web("me", str(tmp_path / "certificate"))
    there.body = b"{}"
    try:
        assert known.ask("GET", there.url, {}) == b"{}"
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            ME.ask("GET", there.url, {})
        sent = drips(there, b"{}", whole=False)
        with pytest.raises(OSError, match="timed out"):
            known.ask("GET", there.url, {}, timeout=0.5)
        assert not sent.is_set()
    finally:
        there.close()


def test_the_words_of_a_refusal_are_waited_for_no_longer(agent: Agent) -> None:
    sent = drips(agent, json.dumps({"RemoteException": {}}).encode(), whole=False, code=403)
    with pytest.raises(HTTPError) as refused:
        ME.ask("GET", agent.url, {}, timeout=0.5)
    with refused.value, pytest.raises(TimeoutError):
        refused.value.read()
    assert not sent.is_set()


def test_who_stands_by_and_who_is_down_are_passed_over() -> None:
    with (
        answering(307, location="http://127.0.0.1:9/elsewhere") as (standby, _),
        answering(200, {"apps": None}) as (active, asked),
    ):
        manager = ResourceManager((DOWN, standby, f"{active}/"), ME)
        assert manager.tagged("a tag") == []
        manager.kill("application_1_1")
    assert asked == [
        "GET /ws/v1/cluster/apps?applicationTags=a+tag&deSelects=resourceRequests&user.name=me",
        'PUT /ws/v1/cluster/apps/application_1_1/state?user.name=me {"state": "KILLED"}',
    ]


@pytest.mark.parametrize(
    ("code", "body", "fault"),
    [
        (307, {}, "stands by"),
        (401, {}, "HTTP 401"),
        (404, {}, "HTTP 404"),
        (403, {"RemoteException": {"message": "User me\n may not"}}, "HTTP 403: User me may not"),
        (403, {"RemoteException": {"message": 1}}, r"HTTP 403\)"),
        (403, [], r"HTTP 403\)"),
        (403, b"<html>", r"HTTP 403\)"),
        (200, b"<html>", "Expecting value"),
        (200, [], "answered something else than a ResourceManager"),
        (200, {}, "no list of applications"),
    ],
)
def test_what_is_no_answer_is_never_taken_for_no_application(
    code: int, body: Any, fault: str
) -> None:
    with answering(code, body) as (url, _), pytest.raises(Unanswered, match=fault):
        ResourceManager((url,), ME).tagged("tag")


def test_applications_of_others_are_passed_over_whatever_a_resource_manager_answers() -> None:
    told = {"id": "application_1_1", "state": "RUNNING", "applicationTags": "mine,more"}
    strangers = {**told, "id": "application_1_2", "applicationTags": "mine-too"}
    with answering(200, {"apps": {"app": [told, strangers]}}) as (url, _):
        assert [each.id for each in ResourceManager((url,), ME).tagged("mine")] == [told["id"]]


@pytest.mark.parametrize("body", [{"nodes": "x"}, {"nodes": {"node": ["x"]}}, {"nodes": [1]}])
def test_what_is_no_list_of_nodes_is_no_answer(body: Any) -> None:
    with answering(200, body) as (url, _), pytest.raises(Unanswered, match="no list of nodes"):
        ResourceManager((url,), ME).last_report("n1:8042")


@pytest.mark.parametrize("body", [{}, {"clusterMetrics": "x"}])
def test_what_tells_nothing_of_a_cluster_is_no_resource_manager(body: Any) -> None:
    with answering(200, body) as (url, _), pytest.raises(Unanswered, match="something else"):
        ResourceManager((url,), ME).check()


def test_without_any_that_answers_nothing_is_told() -> None:
    with pytest.raises(Unanswered, match=f"no ResourceManager answers \\({DOWN}: "):
        ResourceManager((DOWN,), ME).tagged("tag")


@pytest.mark.parametrize(
    ("code", "body", "there"),
    [
        (200, {"container": {"state": "RUNNING"}}, True),
        (200, {"container": {"state": "COMPLETE"}}, False),
        (404, {}, False),
        (500, {}, None),
        (200, b"<html>", None),
        (200, {}, None),
        (200, {"container": None}, None),
        (200, {"container": "x"}, None),
    ],
)
def test_a_container_is_gone_only_where_its_node_says_so(
    code: int, body: Any, there: bool | None
) -> None:
    with answering(code, body) as (url, _):
        assert runs(url, "container_1", ME) is there
    assert runs(DOWN, "container_1", ME) is None


def test_a_log_that_was_gathered_is_had_from_where_the_node_sends_to() -> None:
    text = b"LogType:stdout\nLogContents:\nhello\nEnd of LogType:stdout"
    with answering(200, text) as (server, _), answering(307, {}, f"{server}/logs") as (node, asked):
        assert log(node, "container_1", "stdout", 99, ME) == "hello"
    assert asked == ["GET /ws/v1/node/containers/container_1/logs/stdout?size=-99&user.name=me"]
    assert log(DOWN, "container_1", "stdout", 99, ME) is None


def told(tag: str, state: str = "RUNNING") -> dict[str, Any]:
    return {"id": f"application_{tag}", "state": state, "applicationTags": f"{tag},more"}


def test_at_a_glance_those_that_live_are_had_by_one_question() -> None:
    alive = {"apps": {"app": [told("a"), told("b")]}}
    with answering(200, alive) as (url, asked):
        snapshot = take_snapshot(ResourceManager((url,), ME), "SPARK")
        assert [snapshot.tagged(tag)[0].id for tag in "ab"] == ["application_a", "application_b"]
        assert len(asked) == 1 and "user=me" in asked[0] and "RUNNING" in asked[0]
        assert "applicationTypes=SPARK" in asked[0] and "FAILED" not in asked[0]
        # It may have ended, be another user's, or have been started since.
        assert snapshot.tagged("c") == []
        (alone,) = asked[1:]
        assert alone.startswith("GET /ws/v1/cluster/apps?applicationTags=c&")


def test_at_a_glance_nobody_who_did_not_answer_is_asked_for_each_again() -> None:
    with answering(500) as (url, asked):
        snapshot = take_snapshot(ResourceManager((url,), ME), "SPARK")
        for tag in "ab":
            with pytest.raises(Unanswered, match="HTTP 500"):
                snapshot.tagged(tag)
            with pytest.raises(Unanswered, match="HTTP 500"):
                snapshot.last_report("n1:8042")
    assert len(asked) == 1


def test_where_yarn_has_forgotten_a_thousand_drivers_it_is_not_asked_for_each() -> None:
    tags = [f"sparkscale-{number:016x}-1" for number in range(1000)]
    remembered = {"id": "application_2_1", "state": "FAILED", "applicationTags": tags[-1]}
    told_tags = []

    def all_tags() -> list[str]:
        told_tags.append(len(tags))
        return tags

    with answering(200, {"apps": {"app": [remembered]}}) as (url, asked):
        snapshot = take_snapshot(ResourceManager((url,), ME), "SPARK", all_tags)
        assert dict(snapshot.listed) == {tags[-1]: snapshot.listed[tags[-1]]}
        found = {tag: [each.id for each in snapshot.tagged(tag)] for tag in tags}
        assert found == {tag: [] for tag in tags[:-1]} | {tags[-1]: ["application_2_1"]}
        together = -(-(len(tags) - 1) // TOGETHER)
        assert len(asked) == 1 + ONE_BY_ONE + together
        assert max(map(len, asked)) < 4096, "proxies take 8 KB"
        # Submitted since: not among all that was asked for.
        assert snapshot.tagged("sparkscale-new-1") == []
        assert len(asked) == 2 + ONE_BY_ONE + together
    assert told_tags == [1000]


def test_who_fails_to_tell_of_a_thousand_drivers_is_not_asked_for_each() -> None:
    with answering(200, {"apps": {"app": []}}) as (url, _):
        snapshot = take_snapshot(ResourceManager((url,), ME), "SPARK", lambda: map(str, range(999)))
    for number in range(100):
        with pytest.raises(Unanswered, match="refused"):
            snapshot.tagged(str(number))
    # No more than what is asked for alone, and that once.
    assert isinstance(snapshot._later["together"], Unanswered)


def test_a_folder_that_can_not_be_read_keeps_no_other_driver_from_being_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a state folder whose server has been set up anew."""
    store, tags = FolderStore(tmp_path), []
    for number in range(3):
        record = replace(Record.new(f"{number:016x}"), revision=1, epoch=1)
        store.swap(f"s{number}", record)
        tags.append(f"sparkscale-{number:016x}-1")
    stale, exists = store.folder("s1").submission(1).ended, Path.exists

    def looked_for(path: Path) -> bool:
        if path == stale:
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", looked_for)
    with answering(200, {"apps": {"app": []}}) as (url, asked):
        cluster = YarnCluster(
            resource_managers=[url], hadoop_conf_dir=str(tmp_path), state_dir=str(tmp_path)
        )
        manager = cluster.snapshot()._manager()
        for number in range(ONE_BY_ONE):
            assert manager.tagged(f"other-{number}") == []
        assert [manager.tagged(tag) for tag in tags] == [[]] * 3
    assert ",".join((tags[0], tags[2])) in unquote(asked[1 + ONE_BY_ONE])


def test_nodes_are_listed_once_in_a_glance() -> None:
    node = {"nodeHTTPAddress": "n1:8042", "state": "RUNNING", "lastHealthUpdate": 7}
    with answering(200, {"apps": None, "nodes": {"node": [node]}}) as (url, asked):
        snapshot = take_snapshot(ResourceManager((url,), ME), "SPARK")
        assert [snapshot.last_report("n1:8042") for _ in range(50)] == [7] * 50
    assert len(asked) == 2


APP = Application(
    id="application_1_1",
    state="RUNNING",
    final_status="",
    diagnostics="",
    tags=frozenset(),
    queue="",
    user="",
    finished_at=None,
    node=None,
    container=None,
)
SETTINGS = {"sparkProperties": [["spark.a", "1"]]}


def test_the_pages_of_an_application_are_where_yarn_says() -> None:
    with answering(200, SETTINGS) as (proxy, asked), answering(404) as (url, others):
        app = replace(APP, pages=f"{proxy}/proxy/{APP.id}/")
        assert ResourceManager((url,), ME).environment(app) == {"spark.a": "1"}
    path = f"/proxy/{APP.id}/api/v1/applications/{APP.id}/environment?user.name=me"
    assert asked == [f"GET {path}"] and not others
    # As where that name means nothing here, and the ResourceManager is reached by a tunnel.
    with answering(200, SETTINGS) as (url, asked):
        app = replace(APP, pages=f"{DOWN}/proxy/{APP.id}/")
        assert ResourceManager((url,), ME).environment(app) == {"spark.a": "1"}
    assert asked == [f"GET {path}"]


def test_why_no_page_of_an_application_answers_is_told() -> None:
    with answering(404) as (url, _), answering(200, {}) as (proxy, _):
        app = replace(APP, pages=proxy)
        with pytest.raises(Unanswered) as told:
            ResourceManager((url,), ME).environment(app)
    assert f"{proxy}: answers, but not as Spark does" in str(told.value)
    assert f"{url}/proxy/{APP.id}: HTTP 404" in str(told.value)


def test_certificates_that_are_none_are_told_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "ca.pem"
    wrong.write_text("none")
    secure = ("https://127.0.0.1:9",)
    with pytest.raises(Unanswered, match=r"ca_file = .*ca\.pem': must be certificates, PEM"):
        ResourceManager(secure, Web("me", str(wrong))).tagged("tag")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nope")
    with pytest.raises(Unanswered, match="REQUESTS_CA_BUNDLE = '/nope': must be certificates"):
        ResourceManager(secure, ME).tagged("tag")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path))
    with pytest.raises(Unanswered, match="refused"):
        ResourceManager(secure, ME).tagged("tag")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"resource_managers": []}, "resource_managers.*must be the web address"),
        ({"resource_managers": ["rm:8088"]}, r"'rm:8088': must be the web address .*http://host"),
        ({"tags": ["a,b"]}, "'a,b': must be 100 ASCII characters"),
        ({"queu": "a"}, "queu.*did you mean 'queue'"),
        (
            {"staging_dir": "hdfs:///s", "spark_conf": {"spark.yarn.stagingDir": "hdfs:///t"}},
            r"staging_dir = .*: drop it, or drop spark\.yarn\.stagingDir of spark_conf",
        ),
    ],
)
def test_a_field_that_can_not_be_is_refused(fields: dict[str, Any], fault: str) -> None:
    given = {"resource_managers": [DOWN], "hadoop_conf_dir": "/c"}
    with pytest.raises(DeclarationError, match=fault):
        YarnCluster(**{**given, **fields})


@pytest.mark.parametrize(
    ("folder", "fault"), [("", r"there is no yarn-site\.xml"), ("nope", "there is no such folder")]
)
def test_nothing_is_begun_without_the_settings_of_the_cluster(
    tmp_path: Path, folder: str, fault: str
) -> None:
    with answering(200, {"apps": None}) as (url, _):
        cluster = YarnCluster(
            resource_managers=[url],
            hadoop_conf_dir=str(tmp_path / folder),
            state_dir=str(tmp_path / "s"),
        )
        with pytest.raises(ClusterError, match=f"hadoop_conf_dir = .*{fault}; must be the folder"):
            submit(cluster, stream("clicks"))
        assert cluster.find("clicks") is None
        told = {each.subject: each for each in cluster.conditions([])}["hadoop_conf_dir"]
        assert told.wrong and re.search(fault, told.text)


def test_what_is_left_in_a_staging_folder_is_looked_for_where_spark_puts_it(tmp_path: Path) -> None:
    where = {"spark.yarn.stagingDir": "hdfs:///s/"}
    given: dict[str, Any] = {"resource_managers": [DOWN], "hadoop_conf_dir": str(tmp_path)}
    for fields in ({"spark_conf": where}, {"staging_dir": "hdfs:///s"}):
        cluster = YarnCluster(**given, **fields)
        staged = Yarn(cluster._manager(), Client(*[tmp_path] * 3, None), cluster._staging())
        assert staged.staging(replace(APP, user="u")) == f"hdfs:///s/u/.sparkStaging/{APP.id}"
    with pytest.raises(ClusterError, match="set staging_dir of the cluster"):
        YarnCluster(**given).program_of(stream("clicks", spark_conf=where))


def test_a_program_or_a_variable_whose_name_can_not_be_shipped_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "a,b.py"
    program.write_bytes((PROGRAMS / "idle.py").read_bytes())
    cluster = YarnCluster(
        resource_managers=[DOWN], hadoop_conf_dir=str(tmp_path), state_dir=str(tmp_path / "s")
    )
    with pytest.raises(ClusterError, match="must be a path without a comma or #"):
        submit(cluster, stream("clicks", program=str(program)))
    with pytest.raises(ClusterError, match=r"clicks: env: 'a\.b': must be letters, digits"):
        submit(cluster, stream("clicks", env={"a.b": SECRET}))
