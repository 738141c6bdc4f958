"""The memory of an agent's process while strangers, and somebody with its token, send it rubbish.

The process is one of its own, so that its memory is what the system has given it. Its agent has a
batch every ten seconds and no Spark.
"""

import contextlib
import http.client
import json
import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

import psutil
import pytest

from benchmarks.agents import TOKEN
from benchmarks.pretended import agents
from tests.waiting import HANGS

AT_ONCE, ROUNDS = 100, 4
LARGE = 8 << 20
WHILE, AFTER = 60 << 20, 8 << 20
"""Bytes that the process may have more of while that goes on, and once it is over."""
_CONTROL = f"Authorization: Bearer {TOKEN}\r\n".encode()


def rubbish(chance: random.Random) -> bytes:
    return chance.randbytes(64 << 10)


def endless_head(_: random.Random) -> bytes:
    return b"GET /v1/status HTTP/1.1\r\nX: " + b"a" * LARGE


def many_headers(_: random.Random) -> bytes:
    return b"GET /v1/status HTTP/1.1\r\n" + _CONTROL + b"X: a\r\n" * (LARGE // 6)


def endless_body(_: random.Random) -> bytes:
    head = b"PUT /v1/executors HTTP/1.1\r\nContent-Length: 999999999\r\n"
    return head + _CONTROL + b"\r\n" + b"{" * LARGE


def chunks(_: random.Random) -> bytes:
    head = b"PUT /v1/executors HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
    return head + _CONTROL + b"\r\n" + b"ffff\r\n" + b"[" * LARGE


def nested(_: random.Random) -> bytes:
    body = b'{"plan": ' + b"[" * 60_000
    head = f"PUT /v1/state HTTP/1.1\r\nContent-Length: {len(body)}\r\n".encode()
    return head + _CONTROL + b"\r\n" + body


def long_numbers(_: random.Random) -> bytes:
    body = b'{"target": ' + b"9" * 60_000 + b"}"
    head = f"PUT /v1/executors HTTP/1.1\r\nContent-Length: {len(body)}\r\n".encode()
    return head + _CONTROL + b"\r\n" + body


def requests_in_a_row(_: random.Random) -> bytes:
    return (b"GET /v1/status?window=1e308 HTTP/1.1\r\nHost: a\r\n" + _CONTROL + b"\r\n") * 3


KINDS = (
    *(rubbish, endless_head, many_headers, endless_body, chunks),
    *(nested, long_numbers, requests_in_a_row),
)


@pytest.fixture(scope="module")
def agent() -> Iterator[tuple[psutil.Process, str]]:
    with agents(1) as (process, urls):
        yield psutil.Process(process.pid), urlsplit(urls["stream_0"]).netloc


@pytest.mark.parametrize("kind", KINDS)
def test_its_memory_has_a_bound(agent, kind) -> None:
    process, address = agent
    chance = random.Random(1)
    floods = partial(flood, address, [kind(chance) for _ in range(AT_ONCE)], process)
    floods()  # what is loaded, and what the allocator keeps
    before = process.memory_info().rss
    peak = max(floods() for _ in range(ROUNDS))
    assert peak - before < WHILE
    assert process.memory_info().rss - before < AFTER
    assert answers(address)["stream"] == "stream_0"


def flood(address: str, texts: list[bytes], process: psutil.Process) -> int:
    """Send each on a connection of its own, all at once; gives the most memory that was seen."""
    seen = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(partial(send, address), texts):
            seen.append(process.memory_info().rss)
    return max(seen)


def send(address: str, text: bytes) -> None:
    """Send it all, as far as it is taken, and read what is answered."""
    host, port = address.split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), HANGS) as sent:
        sent.settimeout(1.0)
        with contextlib.suppress(OSError):
            sent.sendall(text)
        sent.shutdown(socket.SHUT_WR)
        while sent.recv(65536):
            pass


def answers(address: str) -> dict[str, object]:
    """The status, as the one who may ask for it gets it."""
    with contextlib.closing(http.client.HTTPConnection(address, timeout=HANGS)) as client:
        client.request("GET", "/v1/status", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = client.getresponse()
        assert answer.status == 200
        found: dict[str, object] = json.loads(answer.read())
        return found
