"""The real server of metrics over real connections: who may ask, for what, and what odd requests
come to."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)

from dagster_sparkscale.driver.metrics.exposition import Metric, Sample
from dagster_sparkscale.serve import http as http_module
from dagster_sparkscale.serve.fleet import Busy
from dagster_sparkscale.serve.http import MAX_CONNECTIONS, MAX_STRANGERS, Server, is_loopback
from tests.serve.scraping import found_in, get, of, running
from tests.waiting import HANGS, wait_for

TOKEN = "0123456789abcdef-token"
GAUGE = Metric("sparkscale_x", "gauge", ("stream",), "A gauge.")
COUNTER = Metric("sparkscale_y_total", "counter", ("stream",), "A counter.")
HISTOGRAM = Metric("sparkscale_z_seconds", "histogram", ("ending",), "A histogram.")
SAMPLES = [
    Sample(GAUGE, {"stream": 'a"b\\c\nd'}, 1.5),
    Sample(COUNTER, {"stream": "a"}, 3),
    Sample(HISTOGRAM, {"ending": "reached", "le": "+Inf"}, 2, "_bucket"),
    Sample(HISTOGRAM, {"ending": "reached"}, 2, "_count"),
    Sample(HISTOGRAM, {"ending": "reached"}, 7.5, "_sum"),
]


@pytest.fixture
def open_server() -> Iterator[Server]:
    with running(Server(("127.0.0.1", 0), lambda: SAMPLES)) as server:
        yield server


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture
def closed_server(token_file: Path) -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), lambda: SAMPLES, token_file=token_file, prefix="/streams")
    with running(made) as server:
        yield server


def test_both_formats_are_answered_as_prometheus_asks(open_server: Server) -> None:
    code, text, headers = get(open_server)
    assert code == 200 and headers["Content-Type"].startswith("text/plain")
    found = found_in(text)
    assert of(found, "x", stream='a"b\\c\nd') == 1.5
    assert of(found, "y_total") == 3
    assert (of(found, "z_seconds_bucket", le="+Inf"), of(found, "z_seconds_sum")) == (2, 7.5)
    accept = "application/openmetrics-text; version=1.0.0"
    code, text, headers = get(open_server, Accept=accept)
    assert code == 200 and headers["Content-Type"].startswith("application/openmetrics-text")
    assert {f.name for f in openmetrics_families(text)} == {
        "sparkscale_x",
        "sparkscale_y",
        "sparkscale_z_seconds",
    }


def test_there_is_nothing_else(open_server: Server) -> None:
    assert get(open_server, "/")[0] == 404
    assert get(open_server, "/metrics/x")[0] == 404
    assert get(open_server, "/metrics?a=b")[0] == 200
    assert get(open_server, "/-/healthy")[:2] == (200, "alive\n")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9464", "10.0.0.1", "[2001:db8::1]"])
def test_without_a_token_no_page_in_a_browser_reads_it(open_server: Server, host: str) -> None:
    code, text, _ = get(open_server, Host=host)
    assert code == 403 and "sparkscale_" not in text


@pytest.mark.parametrize("host", ["localhost", "localhost:94", "127.0.0.1", "[::1]:94", "[::1]"])
def test_this_machine_reads_it(open_server: Server, host: str) -> None:
    assert get(open_server, Host=host)[0] == 200


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer x", f"Bearer {TOKEN}x", TOKEN, "Basic x"])
def test_with_a_token_file_who_has_no_token_reads_nothing(
    closed_server: Server, given: str
) -> None:
    for path in ("/streams/metrics", "/metrics", "/"):
        code, text, _ = get(closed_server, path, Authorization=given)
        assert code == 401 and "sparkscale_" not in text


def test_who_has_it_reads_below_the_prefix_by_any_host(
    closed_server: Server, token_file: Path
) -> None:
    shown = {"Authorization": f"Bearer {TOKEN}", "Host": "metrics.example"}
    assert get(closed_server, "/streams/metrics", **shown)[0] == 200
    assert get(closed_server, "/metrics", **shown)[0] == 404
    assert get(closed_server, "/streams/-/healthy")[0] == 200
    token_file.write_text(TOKEN[::-1])  # another one from now on
    assert get(closed_server, "/streams/metrics", **shown)[0] == 401
    token_file.unlink()
    assert get(closed_server, "/streams/metrics", **shown)[0] == 503


@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_is_changed_by_it(open_server: Server, verb: str) -> None:
    with contextlib.closing(reached(open_server)) as connection:
        connection.sendall(f"{verb} /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b" 501 " in everything(connection).splitlines()[0]


def test_a_look_that_hangs_is_said(token_file: Path) -> None:
    def busy() -> list[Sample]:
        raise Busy("a look has gone on for more than 9 s")

    with running(Server(("127.0.0.1", 0), busy)) as server:
        assert get(server)[:2] == (503, "a look has gone on for more than 9 s\n")


def test_whether_it_is_alive_can_be_asked_by_head(closed_server: Server) -> None:
    for path, code in (("/streams/-/healthy", b"200"), ("/streams/metrics", b"405")):
        with contextlib.closing(reached(closed_server)) as connection:
            connection.sendall(b"HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
            assert everything(connection).split()[1] == code


def test_strangers_that_say_nothing_keep_nobody_out(closed_server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(2 * MAX_STRANGERS):
            stack.enter_context(contextlib.closing(reached(closed_server)))
            shown = {"Authorization": f"Bearer {TOKEN}"}
            assert get(closed_server, "/streams/metrics", **shown)[0] == 200
            assert get(closed_server, "/streams/-/healthy")[0] == 200


def test_a_version_that_is_none_is_no_hindrance(open_server: Server) -> None:
    assert get(open_server, Accept="text/plain; version=abc")[0] == 200
    odd = "application/openmetrics-text; version=1.x; escaping=y"
    assert get(open_server, Accept=odd)[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\xff\xfe\r\n\r\n",
        b"GET /metrics HTTP/7\r\n\r\n",
        b"GET " + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 3000 + b"\r\n",
        b"GET //[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost:x:y\r\n\r\n",
    ],
)
def test_odd_requests_end_and_the_next_is_answered(open_server: Server, sent: bytes) -> None:
    with contextlib.suppress(OSError), contextlib.closing(reached(open_server)) as connection:
        connection.sendall(sent)
        everything(connection)
    assert get(open_server)[0] == 200


def test_who_says_nothing_is_cut_off(open_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "REQUEST_WITHIN", 0.05)
    with contextlib.closing(reached(open_server)) as connection:
        connection.sendall(b"GET /metrics HT")
        assert everything(connection) == b""


def test_connections_are_bounded_and_come_free(token_file: Path) -> None:
    go_on = threading.Event()

    def slow() -> list[Sample]:
        go_on.wait(HANGS)
        return SAMPLES

    with (
        running(Server(("127.0.0.1", 0), slow)) as server,
        contextlib.ExitStack() as stack,
    ):
        waiting = [stack.enter_context(reached(server)) for _ in range(MAX_CONNECTIONS)]
        for each in waiting:
            each.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_for("every place is taken", lambda: not _has_room(server))
        assert get(server)[:2] == (503, f"{MAX_CONNECTIONS} connections are open: ask again\n")
        assert get(server, "/-/healthy")[0] == 200
        go_on.set()
        assert all(b"sparkscale_x" in everything(each) for each in waiting)
        wait_for("a place is free", lambda: _has_room(server))
        assert get(server)[0] == 200


def _has_room(server: Server) -> bool:
    # Not by taking a place: whoever comes meanwhile would be turned away.
    return len(server.door._kept) < MAX_CONNECTIONS


def _cut_off(connection: socket.socket) -> bool:
    try:
        return everything(connection) == b""
    except ConnectionError:
        return True


def reached(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), HANGS)


def everything(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True)),
        *(("localhost", True), ("LOCALHOST", True), ("0.0.0.0", False), ("::", False)),
        *(("localhost.example", False), ("127.0.0.1.example", False), ("", False)),
    ],
)
def test_addresses_that_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@given(st.text(max_size=20), st.floats(allow_nan=False))
def test_any_name_and_value_is_read_back(stream: str, value: float) -> None:
    from prometheus_client.exposition import choose_encoder

    encode, _ = choose_encoder("")
    text = encode(http_module._Collected([Sample(GAUGE, {"stream": stream}, value)])).decode()
    if "\r" not in stream:
        assert of(found_in(text), "x", stream=stream) == value


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_a_query_with_a_name_that_has_no_utf_8_takes_no_others_metrics_away(accept: str) -> None:
    odd = [Sample(GAUGE, {"stream": "\ud800"}, 1), Sample(GAUGE, {"stream": "a"}, 2)]
    with running(Server(("127.0.0.1", 0), lambda: odd)) as server:
        code, text, _ = get(server, Accept=accept)
    assert code == 200 and 'stream="?"' in text and 'stream="a"' in text


def test_why_metrics_can_not_be_made_is_answered() -> None:
    def samples() -> list[Sample]:
        raise RuntimeError("no such column: \ud800")

    with running(Server(("127.0.0.1", 0), samples)) as server:
        assert get(server)[:2] == (500, "this failed: RuntimeError: no such column: ?\n")
