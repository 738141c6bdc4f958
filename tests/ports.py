"""Ports that a test needs by their number."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tests.waiting import wait_for


@contextmanager
def kept_port(number: int = 0) -> Iterator[int]:
    """A port of the loopback interface, any or that one, that nobody is given meanwhile but who
    asks for it by its number: so it is with a port that is bound and not listened at."""
    with socket.socket() as keeping:
        keeping.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What a process had that was killed, the kernel lets go of a moment later.
        wait_for(f"port {number} to be free", lambda: _bound(keeping, number))
        yield keeping.getsockname()[1]


def _bound(keeping: socket.socket, number: int) -> bool:
    try:
        keeping.bind(("127.0.0.1", number))
    except OSError:
        return False
    return True
