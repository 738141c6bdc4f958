"""Keeps some connections of a server, and has others make room."""

import contextlib
import socket
import threading


class Door:
    """A connection is a stranger's until whoever has it shows that he may ask. Of strangers the
    oldest makes room for the next, so that whoever shows it at once is served, however many sit
    there or drip. Safe for threads.

    Args:
        strangers: how many there are at most.
        rooms: how many connections each room has at most, once they are no strangers'.
    """

    def __init__(self, strangers: int, **rooms: int) -> None:
        self._most, self._rooms = strangers, rooms
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, None] = {}  # in the order in which they came
        self._kept: dict[socket.socket, str] = {}

    def came(self, connection: socket.socket) -> None:
        """A connection was made."""
        with self._lock:
            if len(self._strangers) >= self._most:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                with contextlib.suppress(OSError):  # its thread reads the end, and closes it
                    # Not its own: TLS's gives the encryption up, while its thread may still write.
                    socket.socket.shutdown(oldest, socket.SHUT_RDWR)
            self._strangers[connection] = None

    def admit(self, connection: socket.socket, room: str) -> bool:
        """Whether there is room for it, now or since an earlier call: strangers can't end it any
        more."""
        with self._lock:
            if connection in self._kept:
                return True
            taken = sum(1 for each in self._kept.values() if each == room)
            if connection not in self._strangers or taken >= self._rooms[room]:
                return False
            del self._strangers[connection]
            self._kept[connection] = room
            return True

    def gone(self, connection: socket.socket) -> None:
        """A connection has ended. Harmless for one that is not known."""
        with self._lock:
            self._strangers.pop(connection, None)
            self._kept.pop(connection, None)
