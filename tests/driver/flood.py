"""A server that gives everybody who connects as many lines as they take."""

import contextlib
import socket
import threading

LINES = b"line\n" * 200


class Flood:
    """Listens on a free port of the loopback until it is closed."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._listening.accept()[0]
                # Small, so that what is on the way is soon what is taken now.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
                self._connections.append(connection)
                threading.Thread(target=self._pour, args=(connection,), daemon=True).start()

    def _pour(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(LINES)

    def close(self) -> None:
        self._listening.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
