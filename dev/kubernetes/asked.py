"""What the API server asks of nodes: the logs of pods, and connections to their ports."""

import asyncio
import http
import ssl
import struct
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from dev.kubernetes.containers import connect_inside
from dev.kubernetes.kubelet import Kubelet

PORT = 10250
_FORWARDING = Subprotocol("v4.channel.k8s.io")
_CONNECT_SECONDS = 5.0


class Asked:
    """Answers over HTTPS at one address, until `close`."""

    def __init__(self, kubelet: Kubelet, address: str, certificate: tuple[Path, Path]) -> None:
        self._kubelet = kubelet
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(*certificate)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(self._start(address), self._loop)
        self._server = starting.result()

    async def _start(self, address: str) -> Server:
        return await serve(
            self._forward,
            address,
            PORT,
            ssl=self._tls,
            process_request=self._answer,
            subprotocols=[_FORWARDING],
            compression=None,
            max_size=None,
        )

    def close(self) -> None:
        async def end() -> None:
            self._server.close(close_connections=True)
            await self._server.wait_closed()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """The answer to a plain request; None for those that go on to forward a port."""
        url = urlsplit(request.path)
        match url.path.strip("/").split("/"):
            case ["portForward", namespace, pod, *_] if self._kubelet.life(namespace, pod):
                return None
            case ["containerLogs", namespace, pod, _]:
                life = self._kubelet.life(namespace, pod)
                if life is not None and life.log.exists():
                    return _text(_tail(life.log, parse_qs(url.query)))
        return connection.respond(http.HTTPStatus.NOT_FOUND, f"{url.path}: there is no such pod\n")

    async def _forward(self, connection: ServerConnection) -> None:
        """Forward ports by the protocol v4.channel.k8s.io: the first byte of a message names a
        channel, and each port has two, one for data and one for what went wrong. On both the
        number of the port comes first."""
        assert connection.request is not None
        url = urlsplit(connection.request.path)
        _, namespace, pod = url.path.strip("/").split("/")[:3]
        named = parse_qs(url.query).get("port", [])
        ports = [int(port) for each in named for port in each.split(",")]
        for index, port in enumerate(ports):
            for channel in (2 * index, 2 * index + 1):
                await connection.send(bytes([channel]) + struct.pack("<H", port))
        life = self._kubelet.life(namespace, pod)
        writers: dict[int, asyncio.StreamWriter] = {}
        reading: list[asyncio.Task[None]] = []
        for index, port in enumerate(ports):
            try:
                if life is None or life.container is None:
                    raise OSError("the pod does not run")
                pid = life.container.pid
                inside = await asyncio.to_thread(connect_inside, pid, port, _CONNECT_SECONDS)
                inside.setblocking(False)
                reader, writers[2 * index] = await asyncio.open_connection(sock=inside)
            except OSError as error:
                said = f"error forwarding port {port} to pod {pod}: {error}"
                await connection.send(bytes([2 * index + 1]) + said.encode())
                continue
            reading.append(asyncio.create_task(_pass_on(reader, connection, 2 * index)))
        try:
            if reading:
                closing = asyncio.create_task(_end_with(reading, connection))
                async for message in connection:
                    if isinstance(message, bytes) and message[:1] and message[0] in writers:
                        writers[message[0]].write(message[1:])
                        await writers[message[0]].drain()
                await closing
        except (ConnectionClosed, OSError):
            pass
        finally:
            for task in reading:
                task.cancel()
            for writer in writers.values():
                writer.close()


async def _pass_on(reader: asyncio.StreamReader, to: ServerConnection, channel: int) -> None:
    try:
        while data := await reader.read(1 << 16):
            await to.send(bytes([channel]) + data)
    except (ConnectionClosed, OSError):
        pass


async def _end_with(reading: list[asyncio.Task[None]], connection: ServerConnection) -> None:
    """When all that was forwarded has ended, the connection does."""
    await asyncio.wait(reading)
    await connection.close()


def _tail(log: Path, query: dict[str, list[str]]) -> bytes:
    said = log.read_bytes()
    if lines := query.get("tailLines"):
        kept = said.splitlines(keepends=True)
        said = b"".join(kept[len(kept) - min(len(kept), int(lines[0])) :])
    if limit := query.get("limitBytes"):
        said = said[: int(limit[0])]
    return said


def _text(body: bytes) -> Response:
    headers = Headers(
        {
            "Content-Type": "text/plain",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
    )
    return Response(200, "OK", headers, body)
