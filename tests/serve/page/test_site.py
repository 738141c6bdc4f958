"""The pages over real connections: who may see them, what they may load, and what is live."""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import dagster as dg
import pytest

from dagster_sparkscale.cli.locations import instance_of_home
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.lifecycle.assets import PAGE_URL, stream_asset
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.operations import Streams
from dagster_sparkscale.serve import http as http_module
from dagster_sparkscale.serve.http import MAX_LISTENERS, Server, cookie_of
from dagster_sparkscale.serve.page import site as site_module
from dagster_sparkscale.serve.page.reading import Reader
from dagster_sparkscale.serve.page.site import Site
from tests.cli.daemon import tick
from tests.cli.terminal import Terminal
from tests.fakes import scaled
from tests.observe.stored import store
from tests.serve.page.history import CLUSTER
from tests.serve.scraping import get, running
from tests.serve.test_http import TOKEN, everything, reached
from tests.serve.test_serve import fleet_of
from tests.waiting import HANGS, wait_for

STREAM = f"stream?{urlencode({'cluster': CLUSTER, 'stream': 'clicks'})}"
BROWSER = {"Accept": "text/html,*/*"}


@pytest.fixture
def pages(terminal: Terminal) -> Iterator[Server]:
    fleet = fleet_of(every=0.05)
    made = Server(("127.0.0.1", 0), fleet.samples, site=Site(fleet, instance_of_home))
    with running(made) as server:
        yield server


@pytest.fixture
def closed(terminal: Terminal, tmp_path: Path) -> Iterator[Server]:
    """With a token, behind a proxy."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    fleet = fleet_of(every=0.05)
    site = Site(fleet, instance_of_home)
    made = Server(("127.0.0.1", 0), fleet.samples, token_file=file, prefix="/s", site=site)
    with running(made) as server:
        yield server


def test_a_page_may_load_nothing_from_elsewhere_and_nothing_inline(pages: Server) -> None:
    for path in ("/", f"/{STREAM}", "/static/page.js", "/nowhere"):
        _, _, headers = get(pages, path)
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self';") and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_the_fleet_and_a_stream(pages: Server) -> None:
    tick()
    code, text, headers = get(pages, "/")
    assert code == 200 and headers["Content-Type"].startswith("text/html")
    assert (
        "2 streams: " in text and "1 not started" in text and STREAM.replace("&", "&amp;") in text
    )
    code, text, _ = get(pages, f"/{STREAM}&range=7d")
    assert code == 200 and ", 2 executors (1 to 10 allowed)" in text
    assert 'aria-current="page">7d' in text


def test_who_chose_no_range_sees_the_shortest_that_has_all_minutes(
    terminal: Terminal, pages: Server
) -> None:
    assert 'aria-current="page">1h' in get(pages, f"/{STREAM}")[1]
    two_hours_ago = Minute(int(time.time()) - 7200, "running", registered=2)
    with dg.DagsterInstance.get() as instance:
        store(instance, dg.AssetKey("clicks"), [two_hours_ago], at=time.time())
    assert 'aria-current="page">6h' in get(pages, f"/{STREAM}")[1]
    assert 'aria-current="page">1h' in get(pages, f"/{STREAM}&range=1h")[1]


def test_a_database_that_hangs_leaves_what_is_live(
    pages: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(site_module, "READING", 0.0)
    monkeypatch.setattr(site_module, "ANSWERING", 0.01)
    monkeypatch.setattr(Reader, "past", lambda *_, **__: go_on.wait(HANGS))
    for said in ("no answer within 0.01 s", "no answer yet to what was asked before"):
        code, text, _ = get(pages, f"/{STREAM}")
        assert code == 200 and ", 2 executors (1 to 10 allowed)" in text
        assert f"event log can&#x27;t be read: Dagster&#x27;s database: {said}" in text
        assert 'aria-current="page">6h' in text, "nobody knows whether there is more"
    go_on.set()


def test_the_link_of_overview_names_the_stream_alone(
    terminal: Terminal, pages: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{pages.server_port}"
    monkeypatch.setenv(PAGE_URL, f"{url}/")
    linked = stream_asset(Streams([scaled()], "spark_cluster"), scaled()).metadata_by_key
    link = linked[dg.AssetKey("clicks")]["live page"]
    assert isinstance(link, dg.UrlMetadataValue) and link.url is not None
    code, text, _ = get(pages, link.url.removeprefix(url))
    assert code == 200 and "2 executors (1 to 10 allowed)" in text


def test_without_an_address_overview_has_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PAGE_URL, raising=False)
    asset = stream_asset(Streams([scaled()], "spark_cluster"), scaled())
    assert "live page" not in asset.metadata_by_key[dg.AssetKey("clicks")]


def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PAGE_URL, "streams.example")
    with pytest.raises(DeclarationError, match=r"PAGE_URL = 'streams\.example': must"):
        stream_asset(Streams([scaled()], "spark_cluster"), scaled())


def test_what_is_live_is_asked_for_as_json(pages: Server) -> None:
    parts = json.loads(get(pages, "/fleet.json")[1])["parts"]
    assert "1 not started" in parts["fleet"]
    told = json.loads(get(pages, f"/{STREAM.replace('stream?', 'stream.json?')}")[1])
    assert "2 executors (1 to 10 allowed)" in told["parts"]["head"] and told["charts"]["times"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nowhere", "there is no such page"),
        ("/static/../site.py", "there is no such page"),
        ("/static/uplot.LICENSE", "there is no such page"),
        ("/stream?stream=odd", "must be a declared stream: there is none"),
        ("/stream?stream=clicks&cluster=odd", "must be a declared stream of cluster"),
        (f"/stream?{urlencode({'cluster': CLUSTER, 'stream': '<b>'})}", "&lt;b&gt;"),
        (f"/{STREAM}&range=9h", "must be one of 1h, 6h, 24h, 7d, 28d"),
    ],
)
def test_what_there_is_not_is_said(pages: Server, path: str, said: str) -> None:
    code, text, _ = get(pages, path)
    assert code == 404 and said in text and "<b>" not in text


def test_an_address_with_many_values_is_refused(pages: Server) -> None:
    assert get(pages, "/?" + "&".join(f"a{n}=1" for n in range(50)))[0] == 400


def test_no_other_site_reads_it_without_a_token(pages: Server) -> None:
    for path in ("/", f"/{STREAM}", "/events", "/fleet.json"):
        code, text, _ = get(pages, path, Host="evil.example")
        assert code == 403 and "clicks" not in text


def post(server: Server, path: str, form: dict[str, str], **headers: str) -> tuple[int, str, dict]:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    at = ("127.0.0.1", server.server_port)
    with contextlib.closing(http.client.HTTPConnection(*at, timeout=HANGS)) as client:
        client.request("POST", path, urlencode(form), {**kind, **headers})
        answer = client.getresponse()
        return answer.status, answer.read().decode(), dict(answer.headers)


class TestWithAToken:
    def test_a_browser_is_asked_for_it_and_sees_nothing_else(self, closed: Server) -> None:
        for path in ("/s/", f"/s/{STREAM}", "/s/events", "/s/fleet.json", "/s/nowhere"):
            code, text, _ = get(closed, path, **BROWSER)
            assert code == 401 and 'type="password"' in text and "clicks" not in text
            assert get(closed, path)[0] == 401
        assert get(closed, "/s/static/page.css")[0] == 200

    def test_who_shows_it_gets_a_cookie_that_is_not_the_token(self, closed: Server) -> None:
        code, _, headers = post(closed, "/s/login", {"token": TOKEN})
        assert (code, headers["Location"]) == (303, "./")
        cookie = headers["Set-Cookie"]
        assert TOKEN not in cookie and "Path=/s/; HttpOnly; SameSite=Lax" in cookie
        assert "Secure" not in cookie
        shown = {"Cookie": cookie.partition(";")[0], "Host": "streams.example"}
        assert "1 not started" in get(closed, "/s/", **shown)[1]
        assert get(closed, "/s/metrics", **shown)[0] == 200

    def test_behind_a_proxy_with_tls_the_cookie_is_for_tls_alone(self, closed: Server) -> None:
        by_tls = {"X-Forwarded-Proto": "https"}
        assert "; Secure" in post(closed, "/s/login", {"token": TOKEN}, **by_tls)[2]["Set-Cookie"]

    @pytest.mark.parametrize("shown", ["", "x", TOKEN[:-1], f"{TOKEN}x", "\u00e9" * 20])
    def test_another_is_refused(self, closed: Server, shown: str) -> None:
        code, text, headers = post(closed, "/s/login", {"token": shown})
        assert code == 401 and "This is not the token" in text and "Set-Cookie" not in headers

    @pytest.mark.parametrize(
        "cookie",
        ["", "sparkscale=", "sparkscale=x", f"sparkscale={TOKEN}", "odd;;=", "a=\x01; sparkscale"],
    )
    def test_another_cookie_is_none(self, closed: Server, cookie: str) -> None:
        assert get(closed, "/s/", Cookie=cookie)[0] == 401

    @pytest.mark.parametrize("other", ['x={"a": 1}; {}', "a b=1; {}", "{}; sparkscale=of-another"])
    def test_cookies_of_others_at_this_host_do_not_hide_it(
        self, closed: Server, other: str
    ) -> None:
        both = other.replace("{}", f"sparkscale={cookie_of(TOKEN)}")
        assert get(closed, "/s/", Cookie=both)[0] == 200

    def test_a_new_token_ends_the_old_cookies(self, closed: Server) -> None:
        shown = {"Cookie": f"sparkscale={cookie_of(TOKEN)}"}
        assert get(closed, "/s/", **shown)[0] == 200
        assert closed.token_file is not None
        closed.token_file.write_text(TOKEN[::-1])
        assert get(closed, "/s/", **shown)[0] == 401

    def test_a_long_form_is_refused(self, closed: Server) -> None:
        assert post(closed, "/s/login", {"token": "x" * 5000})[0] == 413
        with contextlib.closing(reached(closed)) as connection:
            # More digits than Python makes a number of.
            length = "9" * 5000
            connection.sendall(
                f"POST /s/login HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode()
            )
            assert b" 413 " in everything(connection).splitlines()[0]

    def test_nothing_else_is_posted_to(self, closed: Server, pages: Server) -> None:
        assert post(closed, "/s/", {})[0] == 501
        assert post(pages, "/login", {"token": TOKEN})[0] == 501

    def test_below_the_prefix_alone_there_are_pages(self, closed: Server) -> None:
        shown = {"Authorization": f"Bearer {TOKEN}"}
        assert get(closed, "/", **shown)[0] == 404
        code, _, headers = get(closed, "/s", **shown)
        assert (code, headers["Location"]) == (303, "s/")


@contextlib.contextmanager
def listening(server: Server) -> Iterator[socket.socket]:
    with contextlib.closing(reached(server)) as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield connection


def until(connection: socket.socket, text: bytes) -> bytes:
    told = b""
    while text not in told:
        more = connection.recv(4096)
        assert more, told
        told += more
    return told


class TestLive:
    def test_it_is_told_of_each_look_and_of_the_end(
        self, pages: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http_module, "BEAT", 0.02)
        with listening(pages) as connection:
            told = until(connection, b"data: 2\n\n")
            assert b"Content-Type: text/event-stream" in told and b"event: look\ndata: 1" in told
            pages.ending.set()
            assert everything(connection).endswith(b"event: end\ndata: 0\n\n")

    def test_while_nothing_is_new_it_beats(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http_module, "BEAT", 0.01)
        fleet = fleet_of(every=3600)
        made = Server(("127.0.0.1", 0), fleet.samples, site=Site(fleet, instance_of_home))
        with running(made) as server, listening(server) as connection:
            told = until(connection, b": beat\n\n: beat\n\n")
            assert told.count(b"event: look") == 1

    def test_pages_that_are_live_are_bounded_and_places_come_free(
        self, pages: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http_module, "BEAT", 0.02)
        with contextlib.ExitStack() as stack:
            for _ in range(MAX_LISTENERS):
                until(stack.enter_context(listening(pages)), b"data: ")
            code, text, _ = get(pages, "/events")
            assert code == 503 and f"{MAX_LISTENERS} pages are live" in text
            assert get(pages, "/")[0] == 200  # the pages themselves have room
        wait_for("places come free", lambda: pages.listeners._value == MAX_LISTENERS)

    def test_the_places_of_pages_that_are_closed_are_free_long_before_the_next_beat(
        self, pages: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http_module, "BEAT", HANGS)
        with contextlib.ExitStack() as stack:
            for _ in range(MAX_LISTENERS):
                until(stack.enter_context(listening(pages)), b"data: ")
        wait_for("places come free", lambda: pages.listeners._value == MAX_LISTENERS)

    def test_a_server_that_ends_waits_for_none(self, pages: Server) -> None:
        with listening(pages) as connection:
            until(connection, b"data: 1\n\n")
            pages.shutdown()
            assert everything(connection).endswith(b"event: end\ndata: 0\n\n")


def test_an_event_log_that_fails_is_said_on_the_page(terminal: Terminal) -> None:
    def fails() -> dg.DagsterInstance:
        raise RuntimeError("database is locked")

    fleet = fleet_of()
    answer = Site(fleet, fails).answer("stream", {"cluster": CLUSTER, "stream": "clicks"})
    assert answer.code == 200
    assert "t be read: RuntimeError: database is locked" in answer.content
    assert ", 2 executors (1 to 10 allowed)" in answer.content
