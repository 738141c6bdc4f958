"""What the API server's refusals and silences are told as. That it understands what it is asked is
for the tests with a real one."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import access
from dagster_sparkscale.clusters.kubernetes import api as api_module
from dagster_sparkscale.clusters.kubernetes.access import Access, access_to
from dagster_sparkscale.clusters.kubernetes.api import Api, Refused, Unreachable
from dagster_sparkscale.clusters.kubernetes.api import api as api_of
from tests.waiting import patience


class Server(ThreadingHTTPServer):
    """Answers all requests alike, and remembers them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, str, bytes]] = []
        self.connections: set[tuple[str, int]] = set()
        self.code, self.answer = 200, b"{}"
        self.pause = 0.0
        """Seconds before each byte of an answer."""
        self.drops = 0
        self.knows: str | None = None
        """The token that is known; None: any, and none."""
        """How many of the next requests get no answer."""
        self.put_off: list[str | None] = []
        """Retry-After of the next answers, each of which is 429."""

    def says(self, code: int, reason: str = "", message: str = "") -> None:
        status = {"kind": "Status", "reason": reason, "message": message}
        self.code, self.answer = code, json.dumps(status).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind = self.headers.get("Content-Type", "")
        self.server.connections.add(self.client_address)
        self.server.asked.append((self.command, self.path, kind, body))
        if self.server.drops:
            self.server.drops -= 1
            self.close_connection = True
            return
        known_by = self.headers.get("Authorization")
        if self.server.knows and known_by != f"Bearer {self.server.knows}":
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.server.put_off:
            after = self.server.put_off.pop(0)
            self.send_response(429)
            self.send_header("Content-Length", "0")
            if after is not None:
                self.send_header("Retry-After", after)
            self.end_headers()
            return
        self.send_response(self.server.code)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        if not self.server.pause:
            self.wfile.write(self.server.answer)
            return
        with contextlib.suppress(OSError):  # nobody listens any more
            for byte in self.server.answer:
                time.sleep(self.server.pause)
                self.wfile.write(bytes([byte]))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def api(server: Server) -> Api:
    return Api(Access(f"http://127.0.0.1:{server.server_port}", False, dict), "streams")


def test_what_is_there_and_what_is_not(server, api):
    server.answer = b'{"kind": "Pod"}'
    assert api.get("pods", "a b") == {"kind": "Pod"}
    assert server.asked[0][:2] == ("GET", "/api/v1/namespaces/streams/pods/a%20b")
    server.says(404, "NotFound", 'pods "a" not found')
    assert api.get("pods", "a") is None


def test_a_404_of_somebody_else_is_not_taken_for_gone(server, api):
    server.code, server.answer = 404, b"<html>no such page</html>"
    with pytest.raises(Refused):
        api.get("pods", "a")


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_an_api_server_in_trouble_tells_nothing(server, api, code):
    server.says(code, "", "etcd is slow")
    with pytest.raises(Unreachable, match="can't do it now: etcd is slow"):
        api.get("pods", "a")


def test_a_page_that_is_put_off_is_asked_for_again(server, api):
    server.answer = b'{"items": [{"n": 1}]}'
    server.put_off = ["0", "1"]
    assert api.find("pods") == [{"n": 1}]
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("put_off", "asked"),
    [
        (["0"] * 9, 1 + api_module.PUT_OFF),
        ([None], 1),
        (["60"], 1),
        (["Thu, 26 Nov 2026 12:00:00 GMT"], 1),
        (["-1"], 1),
    ],
)
def test_one_that_is_put_off_for_long_is_not(server, api, put_off, asked):
    server.put_off = put_off
    with pytest.raises(Unreachable, match="can't do it now: HTTP status 429"):
        api.find("pods")
    assert len(server.asked) == asked


def test_what_may_change_something_is_never_asked_for_again(server, api):
    server.put_off = ["0"] * 3
    with pytest.raises(Unreachable, match="429"):
        api.create("pods", {})
    assert len(server.asked) == 1


def test_a_token_that_has_run_out_tells_nothing(server, api):
    server.says(401, "Unauthorized", "Unauthorized")
    with pytest.raises(Unreachable, match=r"does not know us .*has run out"):
        api.get("pods", "a")


def test_a_token_that_has_run_out_is_read_again(server, tmp_path):
    def log_in(token):
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {"token": token}}
        told = {"clusters": [cluster], "contexts": [context], "users": [user]}
        path.write_text(json.dumps({**told, "current-context": "x"}))

    path = tmp_path / "config"
    log_in("old")
    before = api_of(str(path), None, None)
    assert before is api_of(str(path), None, None)
    log_in("new")
    server.says(401, "Unauthorized", "Unauthorized")
    with pytest.raises(Unreachable):
        before.get("pods", "a")
    assert api_of(str(path), None, None).access.headers() == {"authorization": "Bearer new"}


@pytest.fixture
def rotated(server, tmp_path):
    """The API by a kubeconfig that names the file of a token, of which somebody makes others."""
    token = tmp_path / "token"
    token.write_text("old")
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"tokenFile": str(token)}}
    content = {"clusters": [cluster], "contexts": [context], "users": [user]}
    config = tmp_path / "config"
    config.write_text(json.dumps({**content, "current-context": "x"}))
    server.knows = "old"
    api = api_of(str(config), None, "streams")
    api.get("pods", "a")
    return api, token


def test_a_token_that_was_written_anew_is_taken_up_in_the_middle_of_an_operation(server, rotated):
    api, token = rotated
    token.write_text("new")
    server.knows = "new"
    server.asked.clear()
    api.create("pods", {"a": "b"})
    assert [method for method, *_ in server.asked] == ["POST", "POST"], "the first was not known"
    server.asked.clear()
    api.create("pods", {"a": "b"})
    assert len(server.asked) == 1


def test_who_is_not_known_by_the_newest_token_either_is_told_that_at_once(server, rotated):
    api, token = rotated
    server.knows = "another"
    server.asked.clear()
    with pytest.raises(Unreachable, match="does not know us"):
        api.get("pods", "a")
    assert len(server.asked) == 2
    token.unlink()
    with pytest.raises(Unreachable, match=r"the kubeconfig .* can't be used"):
        api.get("pods", "a")


@pytest.mark.parametrize("answer", [b"", b"[]", b"hello", b"{", b"[" * 200_000])
def test_an_answer_that_is_none(server, api, answer):
    server.answer = answer
    with pytest.raises(Unreachable, match="something that is not Kubernetes' API"):
        api.get("pods", "a")


def test_what_was_not_granted_names_the_role(server, api):
    said = 'pods is forbidden: User "x" cannot list resource "pods" in API group ""'
    server.says(403, "Forbidden", said)
    with pytest.raises(Refused, match=r"cannot list resource \"pods\".*deploy/kubernetes/dagster"):
        api.find("pods")


def test_what_is_not_kubernetes_own_has_a_path_and_a_role_of_its_own(server, api):
    kind = "sparkoperator.k8s.io/v1beta2/sparkapplications"
    path = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/streams/sparkapplications"
    assert api.path(kind, "a") == f"{path}/a"
    server.code, server.answer = 404, b"404 page not found"
    with pytest.raises(Refused, match=f"there is no {path}/a: is the operator installed"):
        api.get(kind, "a")
    said = 'sparkapplications "a" is forbidden: User "x" cannot get resource'
    server.says(403, "Forbidden", said)
    with pytest.raises(Refused, match=r"applications\.yaml has all"):
        api.get(kind, "a")


def test_an_account_of_drivers_that_is_missing_is_told_with_its_manifest(server, api):
    said = 'pods "x" is forbidden: error looking up service account streams/sparkscale-driver: '
    server.says(403, "Forbidden", f'{said}serviceaccount "sparkscale-driver" not found')
    with pytest.raises(Refused, match=r"not found\. deploy/kubernetes/driver\.yaml makes"):
        api.create("pods", {})


def test_a_quota_is_no_matter_of_roles(server, api):
    server.says(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q')
    with pytest.raises(Refused) as caught:
        api.create("pods", {})
    assert str(caught.value) == 'Kubernetes refused it: pods "x" is forbidden: exceeded quota: q'
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


def test_a_question_is_asked_again_where_the_connection_was_gone(server, api):
    server.drops = 1
    assert api.get("pods", "a") == {}
    server.drops = 2
    with pytest.raises(Unreachable, match="gave no answer"):
        api.get("pods", "a")


def test_a_change_is_never_asked_for_twice(server, api):
    for ask in (
        lambda: api.create("pods", {}),
        lambda: api.replace("pods", "a", {}),
        lambda: api.patch("pods", "a", {}),
        lambda: api.delete("pods", "a"),
        lambda: api.delete_all("pods", grace=1),
    ):
        server.asked.clear()
        server.drops = 1
        with pytest.raises(Unreachable):
            ask()
        assert len(server.asked) == 1


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    gone = Api(Access(f"http://127.0.0.1:{port}", False, dict), "streams")
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port} gave no answer"):
        gone.get("pods", "a")


def test_a_deletion_may_be_of_one_object_alone(server, api):
    assert api.delete("secrets", "a", uid="u-1", grace=1)
    body = json.loads(server.asked[0][3])
    assert body["preconditions"] == {"uid": "u-1"} and body["gracePeriodSeconds"] == 1
    server.says(409, "Conflict", "the UID in the precondition is another")
    assert not api.delete("secrets", "a", uid="u-1")
    server.says(404, "NotFound", "no such secret")
    assert not api.delete("secrets", "a")
    server.says(403, "Forbidden", "no")
    with pytest.raises(Refused):
        api.delete("secrets", "a")


def test_all_are_deleted_within_the_time_they_are_given(server, api):
    api.delete_all("pods", grace=1, labelSelector="a=b")
    method, path, _, body = server.asked[0]
    assert (method, path) == ("DELETE", "/api/v1/namespaces/streams/pods?labelSelector=a%3Db")
    # In the query of a deletion that has a body it would not be read.
    assert json.loads(body)["gracePeriodSeconds"] == 1


def test_a_patch_is_a_merge(server, api):
    api.patch("secrets", "a", {"data": {}})
    assert server.asked[0][2] == "application/merge-patch+json"


def test_a_kubeconfig_that_is_none(tmp_path):
    with pytest.raises(ClusterError, match=f"the kubeconfig \\({tmp_path}/none\\) can't be used"):
        access_to(str(tmp_path / "none"), None)


def test_in_a_pod_its_own_account_is_used_and_its_token_read_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ClusterError, match=r"token: can't read it: .*automountServiceAccountToken"):
        access_to(None, None)
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "namespace").write_text("streams")
    found = access_to(None, None)
    assert (found.url, found.inside, found.namespace) == ("https://10.96.0.1:443", True, "streams")
    assert found.headers() == {"Authorization": "Bearer one"}
    (tmp_path / "token").write_text("two")
    assert found.headers() == {"Authorization": "Bearer two"}
    assert "two" not in repr(found)


def test_an_answer_that_comes_in_drops_ends_in_time(server, api, monkeypatch):
    seconds = round(patience(0.2), 1)  # between two drops it must not seem to be silent
    monkeypatch.setattr(api_module, "SECONDS", seconds)
    server.answer, server.pause = b'{"kind": "Pod"}', seconds / 5
    with pytest.raises(Unreachable, match=f"did not finish its answer in {seconds:g} s"):
        api.get("pods", "a")


def test_connections_are_kept_open(server, api):
    for code in (200, 404, 200):
        server.says(code, "NotFound")
        api.get("pods", "a")
    assert len(server.connections) == 1


def test_a_conflict_without_a_precondition_is_no_deletion(server, api):
    server.says(409, "Conflict", "the object has been modified")
    with pytest.raises(Refused):
        api.delete("secrets", "a")


def test_what_is_deleted_together_gets_the_time_that_is_said(server, api):
    api.delete_all("pods", grace=1, labelSelector="a=b")
    assert server.asked[0][1].endswith("/pods?labelSelector=a%3Db")
    assert json.loads(server.asked[0][3])["gracePeriodSeconds"] == 1


def kubeconfig(path: Path, token: str) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.1.2.3:6443"}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    path.write_text(json.dumps(content))
    return str(path)


def test_a_kubeconfig_that_has_changed_is_read_again(tmp_path):
    path = kubeconfig(tmp_path / "config", "one")
    first = api_of(path, None, None)
    assert api_of(path, None, None) is first
    kubeconfig(tmp_path / "config", "another")
    assert api_of(path, None, None).access.headers() == {"authorization": "Bearer another"}


def test_no_proxy_is_used_for_a_host_that_shall_have_none(tmp_path, monkeypatch):
    path = kubeconfig(tmp_path / "config", "one")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.1.2.3")
    assert access_to(path, None).proxy is None
    monkeypatch.setenv("NO_PROXY", "10.1.2.4")
    assert access_to(path, None).proxy == "http://proxy:3128"


@pytest.mark.parametrize("token", ["hunter2\nof mine", "hunter2ä"])
def test_a_token_that_can_be_none_is_not_shown(server, token):
    access = Access(f"http://127.0.0.1:{server.server_port}", False, lambda: {"a": token})
    with pytest.raises(ClusterError, match="has characters that no token has") as caught:
        Api(access, "streams").get("pods", "a")
    assert "hunter2" not in str(caught.value) and server.asked == []
