"""The driver's teller against a real server, which may be down, refuse, hang or send elsewhere."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dagster_sparkscale.driver.lineage import post as post_module
from dagster_sparkscale.driver.lineage import telling
from dagster_sparkscale.driver.lineage.datasets import Dataset
from dagster_sparkscale.driver.lineage.events import run_id
from dagster_sparkscale.driver.lineage.plan import LineagePlan
from dagster_sparkscale.driver.lineage.post import NotTaken, post
from dagster_sparkscale.driver.lineage.telling import Teller
from tests.driver.lineage.receiving import LineageServer, receiving
from tests.waiting import HANGS, wait_for

RUN = run_id("record", 4)
SECRET = "key-5e1c-nobody-may-see"
CLICKS, OUT = Dataset("kafka://b:9092", "clicks"), Dataset("s3://lake", "out")


@pytest.fixture
def server() -> Iterator[LineageServer]:
    with receiving() as running:
        yield running


def plan(server: LineageServer, **fields: object) -> LineagePlan:
    return replace(LineagePlan(f"{server.url}/api/v1/lineage", "prod", "orders"), **fields)


def told(server: LineageServer, every: float = 600.0) -> Teller:
    teller = Teller(plan(server, every=every), RUN, "4.3.0", 1000.0)
    teller.begin()
    return teller


def test_a_run_begins_runs_and_ends(server: LineageServer):
    teller = told(server, every=0.05)
    wait_for("START", lambda: server.events)
    teller.note([CLICKS], [OUT])
    wait_for("the datasets", lambda: server.events[-1]["inputs"])
    assert teller.end("COMPLETE", 2000.0, None, HANGS)
    kinds = server.kinds(RUN)
    assert kinds[0] == "START" and kinds[-1] == "COMPLETE" and set(kinds[1:-1]) == {"RUNNING"}
    assert server.events[0]["eventTime"].startswith("1970-01-01T00:16:40")
    assert server.events[-1]["inputs"] == [CLICKS._asdict()]
    assert server.events[-1]["outputs"] == [OUT._asdict()]
    assert set(server.paths) == {"/api/v1/lineage"}
    assert set(server.authorizations) == {None}


def test_nothing_is_told_between_start_and_end_where_it_is_not_time(server: LineageServer):
    teller = told(server)
    wait_for("START", lambda: server.events)
    assert teller.end("FAIL", 2000.0, "ValueError: no", HANGS)
    assert server.kinds(RUN) == ["START", "FAIL"]
    assert server.events[-1]["run"]["facets"]["errorMessage"]["message"] == "ValueError: no"


def test_new_datasets_are_told_before_it_is_time(
    server: LineageServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(telling, "AGAIN", 0.01)
    teller = told(server)
    teller.note([CLICKS], [])
    wait_for("the dataset", lambda: server.events and server.events[-1]["inputs"])
    teller.note([CLICKS], [])  # nothing new
    assert teller.end("COMPLETE", 2000.0, None, HANGS)
    assert len(server.events) <= 3


def test_a_server_that_fails_gets_the_start_once_it_works(
    server: LineageServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(telling, "AGAIN", 0.01)
    server.answer = 500
    told(server)
    wait_for("several attempts", lambda: server.asked > 2)
    server.answer = 201
    wait_for("START", lambda: server.events)
    assert server.kinds(RUN)[0] == "START"
    said = ""

    def healed() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "it is taken again" in said

    wait_for("a word of it", healed)
    assert said.count("trouble with lineage") == 1


def test_the_end_is_tried_again_while_there_is_time(
    server: LineageServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(telling, "AT_THE_END", 0.01)
    teller = told(server)
    wait_for("START", lambda: server.events)
    server.answer = 503
    asked = server.asked

    def heal() -> None:
        wait_for("attempts", lambda: server.asked > asked + 1)
        server.answer = 200

    threading.Thread(target=heal, daemon=True).start()
    assert teller.end("ABORT", 2000.0, None, HANGS)
    assert server.kinds(RUN) == ["START", "ABORT"]


@pytest.mark.parametrize("fault", ["down", "refuses", "hangs"])
def test_an_end_that_nobody_takes_is_not_told_and_keeps_nobody(fault: str):
    with receiving() as server:
        if fault == "hangs":
            server.hangs.clear()
        server.answer = 422 if fault == "refuses" else 201
        if fault == "down":
            server.server_close()
        assert told(server).end("FAIL", 2000.0, None, 0.2) is False


def test_a_server_that_answers_byte_by_byte_has_its_time_for_all_of_them():
    with receiving() as server:
        server.drips = True
        server.hangs.clear()
        with pytest.raises(NotTaken, match=r"timed out|took too long"):
            post(plan(server), _event(), 0.3)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"what is this?\r\n\r\n", "what is this?"),
        (b"HTTP/1.1 503 " + 200 * b"no " + b"\r\n\r\n", f"answered 503 {'no ' * 66}no"),
        (b"HTTP/1.1 200 " + b"x" * 2**17, "the answer is too large"),
        (b"y" * 9000 + b"\r\n", "y" * 200),
        (b"HTTP/1.1 500 \x1b[2Jevil\x07\r\n\r\n", "answered 500 ?[2Jevil?"),
    ],
)
def test_whatever_a_server_answers_is_told_in_a_line(answer: bytes, said: str):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(answer)

        threading.Thread(target=speak, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(NotTaken) as error:
            post(LineagePlan(url, "prod", "orders"), _event(), HANGS)
    assert str(error.value).removeprefix(url).removeprefix(":").strip() == said


def test_a_handshake_has_the_time_that_connecting_has_left(monkeypatch: pytest.MonkeyPatch):
    """A proxy may take long to connect."""
    now, left = [100.0], []
    monkeypatch.setattr(post_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with socket.socket() as ours:

        def connected(*_: object) -> socket.socket:
            now[0] += 4
            return ours

        def wrapped(sock: socket.socket, **_: object) -> socket.socket:
            left.append(sock.gettimeout())
            return sock

        connection = post_module._SecureConnection("marquez", timeout=5)
        monkeypatch.setattr(connection, "_create_connection", connected)
        monkeypatch.setattr(connection, "_context", SimpleNamespace(wrap_socket=wrapped))
        connection.connect()
    assert left == [pytest.approx(1)]


def test_the_key_goes_to_the_server_alone(
    server: LineageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "key"
    file.write_text(f"{SECRET}\n")
    monkeypatch.setenv("LINEAGE_KEY", SECRET)
    event = {"run": {"facets": {}, "runId": RUN}, "job": {"facets": {}}}
    server.answer = 204
    for by in ({"api_key_env": "LINEAGE_KEY"}, {"api_key_file": str(file)}):
        with receiving() as other:
            post(plan(other, **by), _event(), 5)
            assert other.authorizations == [f"Bearer {SECRET}"]
            # Not where it is sent on to: the key is for the server that was declared.
            other.answer, other.location = 307, server.url
            with pytest.raises(NotTaken) as error:
                post(plan(other, **by), event, 5)
            assert SECRET not in str(error.value) and "answered 307" in str(error.value)
    assert server.asked == 0


def _event() -> dict:
    return telling.run_event(LineagePlan("", "n", "j"), RUN, "START", 1.0)


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ({"api_key_env": "NO_SUCH_KEY"}, "the environment variable NO_SUCH_KEY has no key"),
        ({"api_key_file": "/no/such/file"}, "/no/such/file: can't be read: FileNotFoundError"),
    ],
)
def test_without_its_key_nothing_is_sent(server: LineageServer, by: dict[str, str], said: str):
    with pytest.raises(NotTaken, match=said):
        post(plan(server, **by), _event(), 5)
    assert server.asked == 0


def test_a_key_of_two_lines_is_not_repeated(server: LineageServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LINEAGE_KEY", f"{SECRET}\nX: y")
    with pytest.raises(NotTaken, match="is the key one line") as error:
        post(plan(server, api_key_env="LINEAGE_KEY"), _event(), 5)
    assert SECRET not in str(error.value)


def test_who_wants_no_event_in_between_is_told_of_the_end(server: LineageServer):
    teller = told(server, every=10 * threading.TIMEOUT_MAX)
    wait_for("START", lambda: server.events)
    assert teller.end("COMPLETE", 2000.0, None, HANGS)
    assert server.kinds(RUN) == ["START", "COMPLETE"]
