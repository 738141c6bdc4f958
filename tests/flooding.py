"""Rubbish for servers, sent on many connections at once, and the memory that it costs them."""

import contextlib
import random
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from typing import NamedTuple

import psutil

from tests.waiting import HANGS, wait_for

AT_ONCE, ROUNDS = 100, 4
LARGE = 8 << 20
DIFFERENT = 5
"""Texts of a kind, of which all connections have one: each may be of 8 MB."""
WHILE = 60 << 20
"""Bytes that the process may have more of while that goes on."""


class Requests(NamedTuple):
    """Requests of which a server knows the beginning."""

    asks: str
    """The first line of one that asks for something."""
    gives: str
    """That of one that has a body."""
    known: str
    """The header of somebody who may do that."""
    longest: int
    """Bytes of a body that is read at all, or somewhat fewer."""

    def head(self, first: str, *more: str) -> bytes:
        return "".join(f"{line}\r\n" for line in (first, self.known, *more)).encode()

    def body(self, content: bytes) -> bytes:
        return self.head(self.gives, f"Content-Length: {len(content)}") + b"\r\n" + content


Kind = Callable[[Requests], bytes]


_chance = random.Random(1)


def rubbish(_: Requests) -> bytes:
    return _chance.randbytes(64 << 10)


def endless_head(to: Requests) -> bytes:
    return f"{to.asks}\r\nX: ".encode() + b"a" * LARGE


def many_headers(to: Requests) -> bytes:
    return to.head(to.asks) + b"X: a\r\n" * (LARGE // 6)


def endless_body(to: Requests) -> bytes:
    return to.head(to.gives, "Content-Length: 999999999") + b"\r\n" + b"{" * LARGE


def chunks(to: Requests) -> bytes:
    return to.head(to.gives, "Transfer-Encoding: chunked") + b"\r\nffff\r\n" + b"[" * LARGE


def nested(to: Requests) -> bytes:
    return to.body(b'{"plan": ' + b"[" * to.longest)


def long_numbers(to: Requests) -> bytes:
    return to.body(b'{"target": ' + b"9" * to.longest + b"}")


def many_fields(to: Requests) -> bytes:
    return to.body(b"a=&" * (to.longest // 3))


def requests_in_a_row(to: Requests) -> bytes:
    return (to.head(to.asks, "Host: localhost") + b"\r\n") * 3


KINDS: tuple[Kind, ...] = (
    *(rubbish, endless_head, many_headers, endless_body, chunks),
    *(nested, long_numbers, many_fields, requests_in_a_row),
)


def assert_memory_has_a_bound(
    process: psutil.Process,
    address: str,
    kind: Kind,
    to: Requests,
    after: int,
    answers: Callable[[], bool],
) -> None:
    """Flood a server with requests of a kind, again and again.

    Args:
        after: bytes that the process may have more of once it is over.
        answers: whether it has done with the flood, and answers who may ask.
    """
    texts = [kind(to) for _ in range(DIFFERENT)]

    def flood() -> int:
        most = _flood(address, texts, process)
        wait_for("an answer after the flood", answers)
        return most

    flood()  # what is loaded, and what the allocator keeps
    before = process.memory_info().rss
    peak = max(flood() for _ in range(ROUNDS))
    assert peak - before < WHILE
    assert process.memory_info().rss - before < after


def _flood(address: str, texts: Sequence[bytes], process: psutil.Process) -> int:
    """Send one of them on each of many connections at once; gives the most memory that was seen."""
    seen = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(partial(_send, address), islice(cycle(texts), AT_ONCE)):
            seen.append(process.memory_info().rss)
    return max(seen)


def _send(address: str, text: bytes) -> None:
    """Send it all, as far as it is taken, and read what is answered."""
    host, port = address.split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), HANGS) as sent:
        sent.settimeout(1.0)
        with contextlib.suppress(OSError):
            sent.sendall(text)
        sent.shutdown(socket.SHUT_WR)
        while sent.recv(65536):
            pass
