"""The agents' client against a server that answers in every way an agent could."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dagster_sparkscale.clusters.agents import AgentClient
from dagster_sparkscale.clusters.base import AgentRefused, AgentUnreachable, StaleEpoch
from tests.waiting import HANGS

TOKEN = "s3cret-token"
STATUS = {
    "api": 1,
    "stream": "clicks",
    "epoch": 3,
    "phase": "running",
    "now": 1.0,
    "started_at": 0.5,
    "spark": {"registered": 2},
    "last_seq": 0,
}


class Agent:
    """A server whose answer a test can set, and which remembers what it was asked."""

    def __init__(self) -> None:
        self.code = 200
        self.body: bytes = json.dumps(STATUS).encode()
        self.headers: dict[str, str] = {}
        self.act: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.connections = 0
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                agent.connections += 1
                super().setup()

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                agent.asked.append((self.command, self.path, dict(self.headers), body))
                if agent.act:
                    agent.act(self)
                    return
                self.send_response(agent.code)
                for key, value in agent.headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(agent.body)))
                self.end_headers()
                self.wfile.write(agent.body)

            do_GET = do_PUT = do_POST = answer

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    yield agent
    agent.server.shutdown()
    agent.server.server_close()


@pytest.fixture
def client() -> Iterator[AgentClient]:
    client = AgentClient()
    yield client
    client.close()


def ask(client: AgentClient, agent: Agent, timeout: float = HANGS) -> Any:
    return client.status("clicks", agent.url, TOKEN, timeout)


def test_it_asks_with_the_token_and_reads_the_status(client: AgentClient, agent: Agent) -> None:
    status = client.status("clicks", agent.url, TOKEN, HANGS, window=60.0)
    assert (status.stream, status.epoch, status.registered) == ("clicks", 3, 2)
    method, path, headers, _ = agent.asked[0]
    assert (method, path) == ("GET", "/v1/status?window=60.000")
    assert headers["Authorization"] == f"Bearer {TOKEN}"


def test_it_scales_and_stops_as_agreed(client: AgentClient, agent: Agent) -> None:
    assert client.scale("clicks", agent.url, TOKEN, 4, 3, HANGS).registered == 2
    limits = {"web": {"maxRecordsPerTrigger": 9, "maxSpanPerTrigger": None}, "old": None}
    now = {"web": {"maxRecordsPerTrigger": 9}}
    agent.body = json.dumps({**STATUS, "rates": now}).encode()
    assert client.set_rates("clicks", agent.url, TOKEN, limits, 3, HANGS).rates == now
    agent.code, agent.body = 202, b"{}"
    client.stop("clicks", agent.url, TOKEN, True, 3, 60.0)
    asked = [(method, path, body) for method, path, _, body in agent.asked]
    assert asked == [
        ("PUT", "/v1/executors", {"target": 4, "epoch": 3}),
        ("PUT", "/v1/rates", {"rates": limits, "epoch": 3}),
        ("POST", "/v1/stop", {"graceful": True, "epoch": 3, "timeout": 60.0}),
    ]


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (401, AgentRefused, "refused the token: because"),
        (409, StaleEpoch, "belongs to another start of the stream: because"),
        (400, AgentRefused, "refused: because"),
        (404, AgentRefused, "refused: because"),
        (503, AgentUnreachable, "can't do it now: because"),
        (500, AgentUnreachable, "failed: because"),
    ],
)
def test_a_refusal_says_who_and_why(
    client: AgentClient, agent: Agent, code: int, error: type[Exception], text: str
) -> None:
    agent.code, agent.body = code, b'{"error": "because"}'
    with pytest.raises(error) as caught:
        ask(client, agent)
    assert type(caught.value) is error
    assert str(caught.value) == f"the agent of 'clicks' at {agent.url} {text}"


@pytest.mark.parametrize("body", [b"", b"<html>no</html>", b"[1]", b"\xff"])
def test_a_refusal_without_words_is_a_refusal_all_the_same(
    client: AgentClient, agent: Agent, body: bytes
) -> None:
    agent.code, agent.body = 401, body
    with pytest.raises(AgentRefused, match="HTTP status 401"):
        ask(client, agent)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>hello</html>", "something that is not JSON"),
        (b"[" * 100_000, "something that is not JSON"),
        (b"[]", "no status: the answer must be a JSON object"),
        (b"{}", "no status: stream: missing"),
        (b"", "no status: stream: missing"),
    ],
)
def test_an_answer_that_is_no_status_is_no_answer(
    client: AgentClient, agent: Agent, body: bytes, text: str
) -> None:
    agent.body = body
    with pytest.raises(AgentUnreachable, match=text):
        ask(client, agent)


def test_a_silent_agent_is_given_up(client: AgentClient, agent: Agent) -> None:
    over = threading.Event()

    def say_nothing(_: BaseHTTPRequestHandler) -> None:
        over.wait(HANGS)

    agent.act = say_nothing
    try:
        with pytest.raises(AgentUnreachable, match=r"gave no answer: nothing within 0\.2 s"):
            ask(client, agent, timeout=0.2)
    finally:
        over.set()


def test_an_agent_that_drips_is_given_up(client: AgentClient, agent: Agent) -> None:
    over = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        while not over.wait(0.02):
            request.wfile.write(b" ")
            request.wfile.flush()

    agent.act = drip
    try:
        with pytest.raises(AgentUnreachable, match=r"nothing within 0\.5 s"):
            ask(client, agent, timeout=0.5)
    finally:
        over.set()


def test_an_endless_answer_is_cut_off(
    client: AgentClient, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dagster_sparkscale.clusters.agents.MAX_ANSWER", 100_000)
    agent.body = b" " * 200_000
    with pytest.raises(AgentUnreachable, match="longer than 100000 bytes"):
        ask(client, agent)


def test_an_answer_cut_short_is_no_answer(client: AgentClient, agent: Agent) -> None:
    def half(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(b'{"stream": "clicks"')
        request.close_connection = True

    agent.act = half
    with pytest.raises(AgentUnreachable, match="its answer was cut short"):
        ask(client, agent)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.1:9", "connection refused"),
        ("http://nowhere.invalid:80", "its host name is unknown here"),
        ("ftp://127.0.0.1", "not an http:// or https:// URL"),
        ("http://127.0.0.1:port", "Port could not be cast"),
        ("nonsense", "not an http:// or https:// URL"),
    ],
)
def test_an_address_that_leads_nowhere_is_named(client: AgentClient, url: str, text: str) -> None:
    with pytest.raises(AgentUnreachable) as caught:
        client.status("clicks", url, TOKEN, HANGS)
    assert f"the agent of 'clicks' at {url} gave no answer: " in str(caught.value)
    assert text in str(caught.value)


def test_one_connection_serves_many_calls(client: AgentClient, agent: Agent) -> None:
    for _ in range(5):
        ask(client, agent)
    agent.code, agent.body = 409, b'{"error": "because"}'
    with pytest.raises(StaleEpoch):
        ask(client, agent)
    assert agent.connections == 1


def test_a_connection_that_the_agent_has_closed_is_made_anew(
    client: AgentClient, agent: Agent
) -> None:
    def close_quietly(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(agent.body)))
        request.end_headers()
        request.wfile.write(agent.body)
        request.close_connection = True

    agent.act = close_quietly
    for _ in range(3):
        ask(client, agent)
    assert agent.connections == 3


def test_no_more_connections_are_kept_than_allowed(agent: Agent) -> None:
    client = AgentClient(idle_connections=0)
    for _ in range(3):
        ask(client, agent)
    assert agent.connections == 3


def test_many_threads_share_it(client: AgentClient, agent: Agent) -> None:
    faults: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                ask(client, agent)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(agent.asked) == 320
    assert agent.connections <= 16


def test_no_proxy_is_used(
    client: AgentClient, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ask(client, agent).stream == "clicks"


def test_a_redirect_is_not_followed(client: AgentClient, agent: Agent) -> None:
    agent.code, agent.headers = 302, {"Location": agent.url + "/elsewhere"}
    with pytest.raises(AgentRefused, match="HTTP status 302"):
        ask(client, agent)
    assert len(agent.asked) == 1


def test_the_token_shows_nowhere(client: AgentClient, agent: Agent) -> None:
    agent.code, agent.body = 401, b"{}"
    with pytest.raises(AgentRefused) as caught:
        ask(client, agent)
    context: BaseException | None = caught.value
    while context is not None:
        assert TOKEN not in str(context) + repr(context)
        context = context.__cause__
    assert TOKEN not in repr(client) + repr(vars(client))


def test_a_deadline_already_past_asks_nobody(client: AgentClient, agent: Agent) -> None:
    with pytest.raises(AgentUnreachable, match="nothing within 0 s"):
        ask(client, agent, timeout=0.0)
    assert agent.asked == []
