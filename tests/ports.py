"""Ports that a test needs by their number."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_port(number: int = 0) -> Iterator[int]:
    """A port of the loopback interface, any or that one, that nobody is given meanwhile but who
    asks for it by its number: so it is with a port that is bound and not listened at."""
    with socket.socket() as keeping:
        keeping.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeping.bind(("127.0.0.1", number))
        yield keeping.getsockname()[1]
