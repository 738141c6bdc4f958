"""The memory of `sparkscale serve` while strangers, and somebody with its token, send it
rubbish."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import requests

from tests.flooding import KINDS, Kind, Requests, assert_memory_has_a_bound, requests_in_a_row
from tests.serve.command import served
from tests.waiting import HANGS

TOKEN = "0123456789abcdef-token"
KNOWN = f"Authorization: Bearer {TOKEN}"
GIVES = "POST /login HTTP/1.1"


@pytest.fixture(scope="module")
def page(
    tmp_path_factory: pytest.TempPathFactory, made_home: Path
) -> Iterator[tuple[psutil.Process, str]]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "token").write_text(TOKEN)
    with served(folder, made_home, "--token-file", "token") as (process, url):
        yield psutil.Process(process.pid), urlsplit(url).netloc


@pytest.mark.parametrize(
    ("kind", "asks"),
    [
        *((kind, "/metrics") for kind in KINDS),
        *((requests_in_a_row, asks) for asks in ("/stream/clicks?hours=1e308", "/events")),
    ],
)
def test_its_memory_has_a_bound(page: tuple[psutil.Process, str], kind: Kind, asks: str) -> None:
    process, address = page
    text = kind(Requests(f"GET {asks} HTTP/1.1", GIVES, KNOWN))
    assert_memory_has_a_bound(process, address, text)
    answer = requests.get(
        f"http://{address}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=HANGS
    )
    assert answer.status_code == 200 and "sparkscale_stream_state" in answer.text
