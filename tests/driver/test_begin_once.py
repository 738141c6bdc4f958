"""One process alone begins as the driver of a start."""

import io
import json
import socket
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.message import Message

import pytest

from dagster_sparkscale.driver.begin import once
from dagster_sparkscale.driver.begin.once import AGAIN, CannotTell, asking, begun_before
from dagster_sparkscale.driver.begin.options import Options
from dagster_sparkscale.driver.ending.reporter import EndReporter
from dagster_sparkscale.driver.main import _refused
from dagster_sparkscale.observe.end_report import read_end_report
from tests.waiting import HANGS

SIGN = {"kind": "ConfigMap", "metadata": {"name": "a-7-begun", "namespace": "streams"}}
PATH = "/api/v1/namespaces/streams/configmaps"


class Server:
    """An API server with room for ConfigMaps, which fails as often as it is told to."""

    def __init__(self, *failures):
        self.made, self.failures = {}, list(failures)
        self.lock = threading.Lock()

    def ask(self, path, body):
        with self.lock:
            failure = self.failures.pop(0) if self.failures else None
            if isinstance(failure, Exception):
                raise failure
            if body is None:
                if (found := self.made.get(path)) is None:
                    raise error(404)
                return found
            assert path == PATH
            made = json.loads(body)
            key = f"{path}/{made['metadata']['name']}"
            if key in self.made:
                raise error(409)
            self.made[key] = made
            if failure == "lost":
                raise TimeoutError("no answer")
            return made


def error(code, text="no"):
    return urllib.error.HTTPError("x", code, text, Message(), io.BytesIO(text.encode()))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(once, "PAUSE", 0.001)


def test_the_first_begins_and_no_other():
    server = Server()
    assert begun_before(SIGN, server.ask) is None
    (made,) = server.made.values()
    assert begun_before(SIGN, server.ask) == made["data"]["at"]
    assert {**made, "data": None} == {**SIGN, "data": None}


def test_of_many_at_once_one_begins():
    server = Server()
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: begun_before(SIGN, server.ask), range(32)))
    assert found.count(None) == 1


def test_an_answer_that_was_lost_is_not_taken_for_anothers():
    assert begun_before(SIGN, Server("lost").ask) is None


def test_it_is_tried_again_until_it_can_be_told():
    outage = Server(error(503), OSError("refused"), error(429), ValueError("no JSON"))
    assert begun_before(SIGN, outage.ask) is None
    # A quota's refusal may be a conflict, too; then there is nothing of that name.
    assert begun_before(SIGN, Server(error(409)).ask) is None


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 99\r\n\r\n{",
        b"what is that?\r\n\r\n",
    ],
)
def test_an_answer_that_is_cut_is_asked_for_again(answer):
    def ask(path, body):
        if not left:
            return server.ask(path, body)
        with urllib.request.urlopen(left.pop(), body, timeout=HANGS) as found:
            return json.load(found)

    def serve():
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    server = Server()
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        left = [f"http://127.0.0.1:{listening.getsockname()[1]}/"]
        served = pool.submit(serve)
        assert begun_before(SIGN, ask) is None
        served.result()
    assert len(server.made) == 1


def test_one_that_nobody_knows_to_be_the_first_does_not_begin():
    with pytest.raises(CannotTell, match="HTTP status 403: no role"):
        begun_before(SIGN, Server(error(403, "no role")).ask)
    # Kubernetes' own answers are read, and come without their JSON and its line ends.
    status = json.dumps({"kind": "Status", "message": "no role", "code": 403})
    with pytest.raises(CannotTell, match=r"^HTTP status 403: no role$"):
        begun_before(SIGN, Server(error(403, f"{status}\n")).ask)
    with pytest.raises(CannotTell, match=r"^HTTP status 403: \[1\]$"):
        begun_before(SIGN, Server(error(403, "[1]")).ask)
    with pytest.raises(CannotTell, match="HTTP status 500: no"):
        begun_before(SIGN, Server(error(500)).ask, patience=0.0)
    with pytest.raises(CannotTell, match="refused"):
        begun_before(SIGN, Server(OSError("refused")).ask, patience=0.0)


def test_outside_of_a_pod_nothing_can_be_told(tmp_path):
    with pytest.raises(CannotTell, match="this pod has no way to the API server"):
        asking(tmp_path)


def test_a_driver_that_was_not_the_first_leaves_word_of_both(tmp_path, monkeypatch, capfd):
    sign, file = tmp_path / "begun.json", tmp_path / "last-report"
    sign.write_text(json.dumps(SIGN))
    options = Options("clicks", 7, 1000, 1, None, "t" * 16, tmp_path / "a.py", begun=sign)
    assert _refused(replace(options, begun=None), EndReporter(None, file)) is None
    # Outside of a pod nobody can tell.
    assert _refused(options, EndReporter(None, file)) == 1
    report = read_end_report(file.read_text())
    assert not report.took and report.raised.startswith("it can't be told whether this start has")
    monkeypatch.setattr("dagster_sparkscale.driver.main.asking", lambda: None)
    for began, code in ((None, None), ("2027-01-15 08:00:00", AGAIN)):
        monkeypatch.setattr("dagster_sparkscale.driver.main.begun_before", lambda *_: began)  # noqa: B023
        assert _refused(options, EndReporter(None, file)) == code
    # The first one may have left its mark; nobody else has its checkpoint.
    report = read_end_report(file.read_text())
    assert report.took and report.fenced is None
    assert "has begun, or was ended, before, at 2027-01-15 08:00:00 UTC" in report.raised
    assert report.raised in capfd.readouterr().err
