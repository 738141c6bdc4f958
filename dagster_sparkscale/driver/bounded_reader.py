"""What is read of a connection, bounded in time and size as a whole."""

import io
import socket
import time
from typing import Any


class BoundedReader(io.RawIOBase):
    """A socket's bytes, up to a deadline and to a number of them.

    Args:
        seconds: from now to the deadline.
        most: bytes.
        what: is read, for the text of an error.
    """

    def __init__(
        self, connection: socket.socket, seconds: float, most: int, what: str = "the request"
    ) -> None:
        self._connection, self._what = connection, what
        self.end_within(seconds)
        self.bytes_left = most

    def end_within(self, seconds: float) -> None:
        """Let the deadline be so many seconds from now."""
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{self._what} took too long")
        if not self.bytes_left:
            raise OSError(f"{self._what} is too large")  # ends the connection, as whoever sends on
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer, min(len(buffer), self.bytes_left))
        self.bytes_left -= count
        return count
