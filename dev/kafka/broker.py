"""One node of Kafka on free ports of the loopback interface, which can fail and come back.

Its jars are those of `broker.lock`. It ends with who wanted it: `python -m dev.kafka` keeps it.
"""

import base64
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dagster_sparkscale.clusters.java import java_home
from dev import jars
from dev.daemons import Daemons, Keeper, tail
from dev.kafka import client, settings
from dev.processes import port_to_use

_LOCK = Path(__file__).parent / "broker.lock"
_INSTALLED = jars.CACHE / "kafka" / "broker"
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_CLUSTER = base64.b64encode(b"sparkscale-kafka").decode().rstrip("=")
"""16 bytes, as of a UUID. One drawn by chance may begin with a hyphen, as options do."""
_START_SECONDS = 120.0
_END_SECONDS = 30.0


class BrokerFailed(RuntimeError):
    """A broker did not come up; carries the end of its log."""


class Broker(Daemons):
    """A broker with its controller. Not started yet.

    Args:
        folder: takes its settings, its log and its data, which stay when it is stopped.
        through: a second port to listen at, and the port of the proxy in front of that.
    """

    def __init__(self, folder: Path, through: tuple[int, int] | None = None) -> None:
        self.folder, self._through = folder.absolute(), through
        self._port, self._controller_port = port_to_use(0), port_to_use(0)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What clients take as `bootstrap.servers`; the same after each start."""
        return f"{settings.HERE}:{self._port}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        """Start it, installed first where need be, and wait until it answers.

        Raises:
            InstallFailed: a jar can't be had.
            BrokerFailed: it has ended, or does not answer.
        """
        if self._process is not None:
            return
        properties = self.folder / "server.properties"
        if not properties.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            properties.write_text(
                settings.server(self.folder, self._port, self._controller_port, self._through)
            )
            made = ["format", "--cluster-id", _CLUSTER, "--config", str(properties)]
            self._run("kafka.tools.StorageTool", *made)
            if self._wait(_START_SECONDS) != 0:
                raise BrokerFailed(f"the storage of Kafka was not made:\n{tail(self.log)}")
        self._run("kafka.Kafka", str(properties))
        deadline = time.monotonic() + _START_SECONDS
        while not client.answers(self.address):
            if not self.runs or time.monotonic() > deadline:
                raise BrokerFailed(f"Kafka does not answer at {self.address}:\n{tail(self.log)}")
            time.sleep(0.1)

    @property
    def runs(self) -> bool:
        """Whether its process does."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it in good order; `start` brings it back with all data."""
        self._end(signal.SIGTERM)

    def end(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._wait(_END_SECONDS)

    def _run(self, main: str, *arguments: str) -> None:
        where = f"{jars.install(_LOCK, _INSTALLED)}/*"
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [str(java_home() / "bin" / "java"), *_JAVA, "-cp", where, main, *arguments],
                env=os.environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, seconds: float) -> int | None:
        """The exit code of its process; None: it was killed, as it did not end within that."""
        assert self._process is not None
        process, self._process = self._process, None
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None


class Kept:
    """A broker that is kept by a process of its own."""

    def __init__(self, keeper: Keeper, address: str) -> None:
        self._keeper = keeper
        self.address = address

    def stop(self) -> None:
        """End the broker in good order; its data stays."""
        self._have("stop")

    def start(self) -> None:
        """Start the broker again, where it was, and wait until it answers.

        Raises:
            BrokerFailed: it did not come up.
        """
        self._have("start")

    def _have(self, order: str) -> None:
        self._keeper.tell(order)
        if self._keeper.told() != self.address:
            raise BrokerFailed(f"{order}: {tail(self._keeper.log)}")


@contextmanager
def tethered(folder: Path) -> Iterator[Kept]:
    """A broker kept by a process of its own, which ends it with this context or with this process.

    Raises:
        BrokerFailed: it did not come up; carries what it said.
    """
    log = folder.parent / f"{folder.name}.log"
    with Keeper(log, "dev.kafka", "--folder", str(folder)) as keeper:
        if (address := keeper.told()) is None:
            raise BrokerFailed(log.read_text(errors="replace"))
        yield Kept(keeper, address)
