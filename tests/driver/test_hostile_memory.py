"""The memory of an agent's process while strangers, and somebody with its token, send it rubbish.

The process is one of its own, so that its memory is what the system has given it. Its agent has a
batch every ten seconds and no Spark.
"""

import contextlib
import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest

from benchmarks.agents import TOKEN
from benchmarks.pretended import agents
from tests.flooding import KINDS, Kind, Requests, assert_memory_has_a_bound, nested
from tests.waiting import HANGS

CONTROL = f"Authorization: Bearer {TOKEN}"
ASKS = "GET /v1/status?window=1e308 HTTP/1.1"


@pytest.fixture(scope="module")
def agent() -> Iterator[tuple[psutil.Process, str]]:
    with agents(1) as (process, urls):
        yield psutil.Process(process.pid), urlsplit(urls["stream_0"]).netloc


@pytest.mark.parametrize(
    ("kind", "gives"), [*((kind, "/v1/executors") for kind in KINDS), (nested, "/v1/state")]
)
def test_its_memory_has_a_bound(agent: tuple[psutil.Process, str], kind: Kind, gives: str) -> None:
    process, address = agent
    requests = Requests(ASKS, f"PUT {gives} HTTP/1.1", CONTROL, longest=60_000)
    assert_memory_has_a_bound(process, address, kind, requests, 8 << 20, lambda: answers(address))


def answers(address: str) -> bool:
    """Whether who may ask for the status gets it."""
    with contextlib.closing(http.client.HTTPConnection(address, timeout=HANGS)) as client:
        client.request("GET", "/v1/status", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = client.getresponse()
        return answer.status == 200 and json.loads(answer.read())["stream"] == "stream_0"
