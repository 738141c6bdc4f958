"""The memory of `sparkscale serve` while strangers, and somebody with its token, send it
rubbish."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import requests

from dagster_sparkscale.serve.http import MAX_FORM
from tests.flooding import (
    KINDS,
    Kind,
    Requests,
    assert_memory_has_a_bound,
    requests_in_a_row,
)
from tests.serve.command import served
from tests.waiting import HANGS

TOKEN = "0123456789abcdef-token"
KNOWN = f"Authorization: Bearer {TOKEN}"
PAGE = "/stream?stream=clicks"
GIVES = "POST /login HTTP/1.1"


@pytest.fixture(scope="module")
def page(
    tmp_path_factory: pytest.TempPathFactory, made_home: Path
) -> Iterator[tuple[psutil.Process, str]]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "token").write_text(TOKEN)
    with served(folder, made_home, "--token-file", "token") as (process, url):
        assert url.startswith("http://127.0.0.1:"), url
        address = urlsplit(url).netloc
        assert "clicks" in asked(address, PAGE).text
        yield psutil.Process(process.pid), address


@pytest.mark.parametrize(
    ("kind", "asks"),
    [
        *((kind, "/metrics") for kind in KINDS),
        *((requests_in_a_row, asks) for asks in (PAGE, "/events")),
    ],
)
def test_its_memory_has_a_bound(page: tuple[psutil.Process, str], kind: Kind, asks: str) -> None:
    process, address = page
    to = Requests(f"GET {asks} HTTP/1.1", GIVES, KNOWN, MAX_FORM - 20)
    # Its page reads the event log, and what SQLAlchemy keeps of that grows for a while.
    assert_memory_has_a_bound(process, address, kind, to, 16 << 20, lambda: answers(address))


def answers(address: str) -> bool:
    answer = asked(address, "/metrics")
    return answer.status_code == 200 and "sparkscale_stream_state" in answer.text


def asked(address: str, path: str) -> requests.Response:
    known = {"Authorization": f"Bearer {TOKEN}"}
    return requests.get(f"http://{address}{path}", headers=known, timeout=HANGS)
