"""A Standalone cluster as users have them, for tests: masters that stand by for each other, their
REST servers, workers; on the loopback interface.

    python -m dev.standalone --masters 2 --workers 2

runs one in the foreground until Ctrl-C, and prints its addresses. All of it is in PySpark's
package, the ZooKeeper by which masters agree on who is in charge too. Whatever it has started ends
with it, drivers and executors included.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from dagster_sparkscale.clusters.host.processes import carrying, kill_all
from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.standalone import masters
from dev.daemons import Daemons, tail
from dev.processes import KILL_SECONDS, end_groups, port_to_use

HOST = "127.0.0.1"
MARK = "SPARKSCALE_DEV_STANDALONE"
"""In the environment of all that a cluster has started, directly or not: its folder."""
_START_SECONDS = 60.0


class NotStarted(RuntimeError):
    """Something did not come up; shows the end of its log."""


@dataclass(frozen=True)
class Master:
    """Where one master is."""

    port: int
    web_port: int
    rest_port: int

    @property
    def web_url(self) -> str:
        return f"http://{HOST}:{self.web_port}"

    @property
    def rest_url(self) -> str:
        return f"http://{HOST}:{self.rest_port}"


@dataclass
class Standalone(Daemons):
    """A cluster. It is up within its context."""

    folder: Path
    masters: int = 1
    """More than one stand by for each other, by a ZooKeeper."""
    workers: int = 1
    cores: int = 8
    """Of each worker; more than the machine has will do."""
    memory: str = "8g"
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of all its processes, besides what they need."""
    lost_after: int = 60
    """Seconds after which a master takes a silent worker for lost."""
    wait_seconds: float = _START_SECONDS

    def __post_init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.at = [Master(*(port_to_use(0) for _ in range(3))) for _ in range(self.masters)]
        self._zookeeper = port_to_use(0)

    @property
    def master_url(self) -> str:
        return "spark://" + ",".join(f"{HOST}:{master.port}" for master in self.at)

    @property
    def rest_urls(self) -> list[str]:
        return [master.rest_url for master in self.at]

    @property
    def web_urls(self) -> list[str]:
        return [master.web_url for master in self.at]

    def start(self) -> None:
        """
        Raises:
            NotStarted: a part did not come up.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.masters > 1:
            self._start_zookeeper()
        for number in range(self.masters):
            self.start_master(number)
        self.wait(lambda: self.overview() is not None, "a master in charge")
        for number in range(self.workers):
            self.start_worker(number)
        self.wait(lambda: self.alive_workers() == self.workers, "the workers")

    def start_master(self, number: int) -> None:
        at = self.at[number]
        options = {
            "spark.master.rest.enabled": "true",
            "spark.master.rest.host": HOST,
            "spark.master.rest.port": str(at.rest_port),
            "spark.port.maxRetries": "0",
            "spark.worker.timeout": str(self.lost_after),
        }
        if self.masters > 1:
            options |= {
                "spark.deploy.recoveryMode": "ZOOKEEPER",
                "spark.deploy.zookeeper.url": f"{HOST}:{self._zookeeper}",
            }
        addresses = ["--host", HOST, "--port", str(at.port), "--webui-port", str(at.web_port)]
        self._start(f"master {number}", "master.Master", addresses, options)

    def start_worker(self, number: int) -> None:
        options = {"spark.worker.timeout": str(self.lost_after)}
        addresses = ["--host", HOST, "--webui-port", "0"]
        size = ["--cores", str(self.cores), "--memory", self.memory]
        place = ["--work-dir", str(self.folder / "work"), self.master_url]
        self._start(f"worker {number}", "worker.Worker", [*addresses, *size, *place], options)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to `master 0` or `worker 1`, and to nothing that it has started."""
        self._processes[name].send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._processes.pop(name).wait()

    def in_charge(self) -> int | None:
        """The number of the master that is; None: none is."""
        for number, master in enumerate(self.at):
            if (masters.overview(master.web_url, 5.0) or {}).get("status") == "ALIVE":
                return number
        return None

    def overview(self) -> dict[str, Any] | None:
        """What the master in charge tells; None: none is."""
        return masters.alive(self.web_urls)

    def alive_workers(self) -> int:
        return int((self.overview() or {}).get("aliveworkers", 0))

    def left(self) -> list[psutil.Process]:
        """What runs and was started by it, directly or not."""
        return carrying(MARK, str(self.folder).__eq__)

    def end(self) -> None:
        """End all that it has started."""
        groups = [process.pid for process in self._processes.values()]
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
        end_groups(groups, patience=5.0)
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        kill_all(self.left, f"they belong to {self.folder}", KILL_SECONDS)

    def wait(self, so: Any, what: str) -> None:
        deadline = time.monotonic() + self.wait_seconds
        while not so():
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise NotStarted(f"the {name} ended:\n{self._tail(name)}")
            if time.monotonic() > deadline:
                logs = "\n".join(self._tail(name) for name in self._processes)
                raise NotStarted(f"waited {self.wait_seconds:g} s for {what}:\n{logs}")
            time.sleep(0.1)

    def _start_zookeeper(self) -> None:
        data = self.folder / "zookeeper"
        data.mkdir()
        settings = data / "zoo.cfg"
        settings.write_text(
            f"dataDir={data}\nclientPort={self._zookeeper}\nclientPortAddress={HOST}\n"
            # How long a master that was killed stays in charge; Spark asks for a minute.
            "tickTime=500\nmaxSessionTimeout=10000\nadmin.enableServer=false\n"
        )
        command = [str(java_home() / "bin/java"), "-Xmx128m", "-cp", f"{spark_home()}/jars/*"]
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        self._run("zookeeper", [*command, main, str(settings)], {})

    def _start(
        self, name: str, main: str, arguments: Sequence[str], options: Mapping[str, str]
    ) -> None:
        set_as = [f"-D{key}={value}" for key, value in options.items()]
        env = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(["-XX:+UseSerialGC", *set_as]),
        }
        command = [str(spark_home() / "bin/spark-class"), f"org.apache.spark.deploy.{main}"]
        self._run(name, [*command, *arguments], env)

    def _run(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        needed = {key: os.environ[key] for key in ("HOME", "PATH") if key in os.environ}
        handed = {**needed, **self.environment, **env, "JAVA_HOME": str(java_home())}
        with open(self._log(name), "ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                env={**handed, MARK: str(self.folder)},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.log"

    def _tail(self, name: str) -> str:
        return tail(self._log(name))


def main() -> int:
    """Run one until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m dev.standalone")
    parser.add_argument("--masters", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="standalone-") as folder:
        path = Path(folder)
        with Standalone(path, masters=given.masters, workers=given.workers) as cluster:
            print(f"master     {cluster.master_url}")
            print(f"REST       {' '.join(cluster.rest_urls)}")
            print(f"web        {' '.join(cluster.web_urls)}", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
