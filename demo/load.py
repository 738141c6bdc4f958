"""The load of the demo: clicks as files, orders over TCP, visits to Kinesis and payments to Kafka,
all rising and falling together.

    python -m demo.load --clicks FOLDER --report FILE [--kinesis URL] [--kafka ADDRESS]
                        [--start-when FILE] [--cycles N]

Until the file given by `--start-when` exists it only trickles, so that the streams can warm up.
It stops by itself: after its cycles, or when the process that started it is gone.
"""

import argparse
import json
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from demo.shape import Pacer, Shape
from dev import kinesis
from dev.kafka import client as kafka

# Records per second at the highest load. With 40 ms of waiting for each record, one core that does
# nothing but wait gets through 25 a second.
CLICKS_PER_SECOND = 45.0
ORDERS_PER_SECOND = 90.0
# Too much for one executor, not much for two: there is a task for each of the two shards.
VISITS_PER_SECOND = 30.0
PAYMENTS_PER_SECOND = 30.0
TRICKLE = 0.02
"""Share of the highest load before the start."""
STEP_SECONDS = 0.5

VISITS = "visits"
"""The Kinesis stream."""
VISIT_SHARDS = 2
PAYMENTS = "payments"
"""The Kafka topic, and the stream that reads it."""
PAYMENT_PARTITIONS = 2

ITEMS = ("lamp", "chair", "table", "shelf", "carpet", "mirror")


class ClickFiles:
    """Writes clicks into a folder, one file at a time. A file appears whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent = 0
        folder.mkdir(parents=True, exist_ok=True)

    def send(self, records: int) -> None:
        if not records:
            return
        now = time.time()
        lines = [
            json.dumps({"page": f"/{random.choice(ITEMS)}/{random.randrange(100)}", "at": now})
            for _ in range(records)
        ]
        name = f"{int(now * 1000)}.json"
        # Spark passes over files whose name begins with a dot.
        draft = self.folder / f".{name}"
        draft.write_text("\n".join(lines) + "\n")
        draft.replace(self.folder / name)
        self.sent += records


class OrderServer:
    """Sends orders to whoever is connected, in turn. Orders nobody is there for are dropped."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.setblocking(False)
        self._clients: list[socket.socket] = []
        self._next = 0
        self.sent = 0
        self.dropped = 0

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def connected(self) -> int:
        return len(self._clients)

    def accept(self) -> None:
        """Take in who has come, let go who has left."""
        while True:
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                break
            client.setblocking(False)
            self._clients.append(client)
        for client in list(self._clients):
            try:
                if client.recv(1024) == b"":
                    self._drop(client)
            except BlockingIOError:
                pass
            except OSError:
                self._drop(client)

    def send(self, records: int) -> None:
        for _ in range(records):
            self._next += 1
            order = {
                "id": self._next,
                "item": random.choice(ITEMS),
                "quantity": random.randint(1, 5),
            }
            if self._send_line(json.dumps(order).encode() + b"\n"):
                self.sent += 1
            else:
                self.dropped += 1

    def _send_line(self, line: bytes) -> bool:
        for _ in range(len(self._clients)):
            client = self._clients[self._next % len(self._clients)]
            try:
                # A line is far smaller than the socket's buffer: what does not fit whole means
                # that the other side has stopped reading.
                if client.send(line) == len(line):
                    return True
            except OSError:
                pass
            self._drop(client)
        return False

    def _drop(self, client: socket.socket) -> None:
        client.close()
        self._clients.remove(client)

    def close(self) -> None:
        for client in list(self._clients):
            self._drop(client)
        self._listener.close()


class VisitPutter:
    """Puts visits to the stream VISITS of a Kinesis emulator, which it makes there first.

    Raises:
        TimeoutError: the stream is not there in time.
    """

    def __init__(self, url: str) -> None:
        # One attempt, and not for long: clicks and orders must not wait for it.
        self._client = kinesis.client(url, attempts=1, timeout=5.0)
        kinesis.create_stream(self._client, VISITS, VISIT_SHARDS)
        self.sent = 0
        self.dropped = 0

    def send(self, records: int) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if not records:
            return
        # At most 500 in a request, by the service; a burst that is larger is no load of a demo.
        visits = [_visit() for _ in range(min(records, 500))]
        try:
            failed: int = self._client.put_records(StreamName=VISITS, Records=visits)[
                "FailedRecordCount"
            ]
        except (BotoCoreError, ClientError):
            failed = len(visits)
        self.sent += len(visits) - failed
        self.dropped += records - len(visits) + failed

    def close(self) -> None:
        self._client.close()


def _visit() -> dict[str, Any]:
    visitor = random.randrange(10_000)
    page = f"/{random.choice(ITEMS)}/{random.randrange(100)}"
    visit = json.dumps({"visitor": visitor, "page": page})
    # What has the same key is on the same shard, in order.
    return {"Data": visit.encode(), "PartitionKey": str(visitor)}


class PaymentPutter:
    """Puts payments into the topic PAYMENTS of a Kafka broker, which it makes there first.

    Raises:
        KafkaFailed: the topic is not there in time.
    """

    def __init__(self, address: str) -> None:
        kafka.create_topic(address, PAYMENTS, PAYMENT_PARTITIONS)
        self._records = kafka.Records(address)
        self._partition = 0
        self.sent = 0

    def send(self, records: int) -> None:
        # In turn, a few records at a time would all go to one partition otherwise.
        for _ in range(records):
            self._partition = (self._partition + 1) % PAYMENT_PARTITIONS
            payment = {"order": self.sent, "cents": random.randrange(100, 100_000)}
            self._records.put(PAYMENTS, [json.dumps(payment)], self._partition)
            self.sent += 1


def write_report(path: Path, report: dict[str, Any]) -> None:
    """Replace the report: whoever reads it never sees half of one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(report))
    draft.replace(path)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The load of the demo.")
    parser.add_argument("--clicks", type=Path, required=True, help="folder the clicks go to")
    parser.add_argument("--report", type=Path, required=True, help="file that says how it goes")
    parser.add_argument("--port", type=int, default=0, help="port of the orders; 0 is any")
    parser.add_argument("--kinesis", help="address of the emulator for visits; without it, none")
    parser.add_argument("--kafka", help="address of the broker for payments; without it, none")
    parser.add_argument("--start-when", type=Path, help="rise only once this file exists")
    parser.add_argument("--cycles", type=float, default=20, help="how often to rise and fall")
    options = parser.parse_args(argv)

    shape = Shape()
    clicks, orders = ClickFiles(options.clicks), OrderServer(options.port)
    visits = VisitPutter(options.kinesis) if options.kinesis else None
    payments = PaymentPutter(options.kafka) if options.kafka else None
    click_pacer, order_pacer, visit_pacer, payment_pacer = Pacer(), Pacer(), Pacer(), Pacer()
    parent = os.getppid()
    started: float | None = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    last = time.monotonic()
    try:
        while os.getppid() == parent:
            now = time.monotonic()
            if started is None and (options.start_when is None or options.start_when.exists()):
                started = now
            age = 0.0 if started is None else now - started
            if age > shape.period * options.cycles:
                break
            level = TRICKLE if started is None else shape.level(age)
            orders.accept()
            clicks.send(click_pacer.due(level * CLICKS_PER_SECOND, now - last))
            orders.send(order_pacer.due(level * ORDERS_PER_SECOND, now - last))
            if visits is not None:
                visits.send(visit_pacer.due(level * VISITS_PER_SECOND, now - last))
            if payments is not None:
                payments.send(payment_pacer.due(level * PAYMENTS_PER_SECOND, now - last))
            write_report(
                options.report,
                {
                    "phase": "waiting" if started is None else shape.phase(age),
                    "seconds": round(age, 1),
                    "port": orders.port,
                    "clicks_per_second": round(level * CLICKS_PER_SECOND, 1),
                    "orders_per_second": round(level * ORDERS_PER_SECOND, 1),
                    "visits_per_second": round(level * VISITS_PER_SECOND, 1),
                    "payments_per_second": round(level * PAYMENTS_PER_SECOND, 1),
                    "clicks_sent": clicks.sent,
                    "orders_sent": orders.sent,
                    "orders_dropped": orders.dropped,
                    "order_connections": orders.connected,
                    "visits_sent": visits.sent if visits else 0,
                    "visits_dropped": visits.dropped if visits else 0,
                    "payments_sent": payments.sent if payments else 0,
                },
            )
            last = now
            time.sleep(STEP_SECONDS)
    except KeyboardInterrupt:
        pass
    finally:
        orders.close()
        if visits is not None:
            visits.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
