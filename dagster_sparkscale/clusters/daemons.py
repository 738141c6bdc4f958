"""The processes of an embedded Standalone cluster: one master and its workers, on the loopback.

    <state_dir>/cluster/cluster.json    ports, pids with birth times, the mark of its processes
    <state_dir>/cluster/recovery/       what a restarted master recovers workers and streams from
    <state_dir>/cluster/work/           the executors' folders
    <state_dir>/cluster/logs/           bounded logs

What must not change: the master comes back at the address it had, for the drivers know no other;
nothing listens beyond the loopback; no process is signalled by a bare pid.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from dagster_sparkscale.clusters import masters, processes
from dagster_sparkscale.clusters.base import ClusterError
from dagster_sparkscale.clusters.store import make_private, read_json
from dagster_sparkscale.driver.supervisor import birth, write_json

if TYPE_CHECKING:
    import psutil

MARKER = "SPARKSCALE_CLUSTER"
HOST = "127.0.0.1"
START_SECONDS = 90.0
_DAEMON_MEMORY = "256m"
_MASTER_CLASS = "org.apache.spark.deploy.master.Master"
_WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:sparkscale.log}
appender.file.filePattern = ${sys:sparkscale.log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""

# Daemons this process has started: kept so that they are reaped when they end.
_launched: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Size:
    """How much the embedded cluster offers."""

    workers: int
    cores: int
    """Of each worker. May exceed what the machine has: executors then share its processors."""
    memory: str
    """Of each worker, as a JVM memory size."""


class Daemons:
    """The master and the workers that belong to one state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / "cluster"
        self._note = self.folder / "cluster.json"

    def addresses(self) -> tuple[str, str] | None:
        """The master's URL and that of its web UI; None if the cluster was never started."""
        note = read_json(self._note)
        return None if note is None else _addresses(note, self._note)

    def dead(self, workers: int) -> list[str]:
        """Which daemons are missing: `master`, `worker 1`, ..."""
        note = read_json(self._note) or {}
        names = ["master", *(f"worker {number}" for number in range(1, workers + 1))]
        return [name for name in names if not _lives(note, name)]

    def start(self, size: Size, java: Path, spark: Path, drivers_alive: bool) -> None:
        """Start what is missing. Safe to call at any time, from several processes at once.

        Raises:
            ClusterError: something did not come up; shows the end of its log.
        """
        with self._locked():
            note = read_json(self._note)
            if note is not None and not self.dead(size.workers):
                return
            fresh = note is None
            if note is None:
                note = {"id": os.urandom(8).hex(), "daemons": {}}
            if not drivers_alive and len(self.dead(size.workers)) == size.workers + 1:
                # Nobody is left to recover; a master that found the dead of a restarted machine
                # in its notes would wait for them before it took anything new.
                shutil.rmtree(self.folder / "recovery", ignore_errors=True)
                fresh = True
            for attempt in range(3):
                try:
                    self._start(note, size, java, spark, fresh)
                    return
                except _PortTaken:
                    # A port can be lost only between choosing and binding it, or while the master
                    # was down; only a cluster that no driver knows may move to another.
                    if not fresh or drivers_alive or attempt == 2:
                        raise
                    note.pop("master_port", None)

    def _start(
        self, note: dict[str, Any], size: Size, java: Path, spark: Path, fresh: bool
    ) -> None:
        if "master_port" not in note:
            note["master_port"], note["web_port"] = _free_ports(2)
        write_json(self._note, note)
        (self.folder / "log4j2.properties").write_text(_LOG4J)
        for name in ("recovery", "work", "logs"):
            make_private(self.folder / name)
        env = self._environment(note["id"], java, spark)
        master, web = _addresses(note, self._note)
        if not _lives(note, "master"):
            options = {
                "spark.deploy.recoveryMode": "FILESYSTEM",
                "spark.deploy.recoveryDirectory": str(self.folder / "recovery"),
                # How long a restarted master waits for workers that died with it.
                "spark.deploy.recoveryTimeout": "15",
                # A second way in, which nothing here uses.
                "spark.master.rest.enabled": "false",
                # Or a taken port would silently become another address.
                "spark.port.maxRetries": "0",
            }
            arguments = ["--host", HOST, "--port", str(note["master_port"])]
            arguments += ["--webui-port", str(note["web_port"])]
            self._launch(note, "master", _MASTER_CLASS, arguments, options, env)
        self._await(note, "master", lambda: masters.overview(web, 5.0) is not None)
        started = 0
        for number in range(1, size.workers + 1):
            name = f"worker {number}"
            if _lives(note, name):
                continue
            options = {
                # Streams run for months: neither dead applications nor logs may fill the disk.
                "spark.worker.cleanup.enabled": "true",
                "spark.worker.cleanup.interval": "600",
                "spark.worker.cleanup.appDataTtl": "3600",
                "spark.executor.logs.rolling.strategy": "size",
                "spark.executor.logs.rolling.maxSize": "10000000",
                "spark.executor.logs.rolling.maxRetainedFiles": "3",
            }
            arguments = ["--host", HOST, "--webui-port", "0", "--cores", str(size.cores)]
            arguments += ["--memory", size.memory, "--work-dir", str(self.folder / "work"), master]
            self._launch(note, name, _WORKER_CLASS, arguments, options, env)
            started += 1
        if started:
            names = [f"worker {number}" for number in range(1, size.workers + 1)]
            self._await(note, names[-1], lambda: _registered(web, size.workers), names)

    def stop(self) -> None:
        """End all daemons and their executors; returns when nothing of them is left.

        Raises:
            ClusterError: a process can't be killed.
        """
        note = read_json(self._note)
        if note is None:
            return
        with self._locked():
            # Workers first: they take their executors down in good order.
            for name in sorted(note["daemons"], reverse=True):
                if _lives(note, name):
                    with contextlib.suppress(OSError):
                        os.kill(note["daemons"][name]["pid"], signal.SIGTERM)
            mark = note["id"]
            processes.wait_until(lambda: not _marked(mark), processes.TERM_SECONDS)
            processes.wait_until(lambda: not _kill(mark), processes.TERM_SECONDS)
            if left := _marked(mark):
                pids = ", ".join(str(process.pid) for process in left)
                raise ClusterError(f"process(es) {pids} of the cluster can't be killed")
            note["daemons"] = {}
            write_json(self._note, note)
            for name in ("recovery", "work"):
                shutil.rmtree(self.folder / name, ignore_errors=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_private(self.folder.parent)
        make_private(self.folder)
        lock = FileLock(self.folder / "start.lock", mode=0o600, thread_local=False)
        try:
            lock.acquire(timeout=2 * START_SECONDS)
        except Timeout:
            raise ClusterError(
                f"{self.folder / 'start.lock'}: somebody else has been starting or stopping the "
                f"cluster for {2 * START_SECONDS:.0f} s"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _environment(self, mark: str, java: Path, spark: Path) -> dict[str, str]:
        # Executors inherit what their worker has: the credentials in the environment, as the
        # drivers do, but nothing that speaks of another Spark or of the process starting this.
        foreign = ("SPARK", "PYSPARK", "DAGSTER", "PYTHONPATH")
        env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return {
            **env,
            "JAVA_HOME": str(java),
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            MARKER: mark,
        }

    def _launch(
        self,
        note: dict[str, Any],
        name: str,
        main_class: str,
        arguments: Sequence[str],
        options: Mapping[str, str],
        env: Mapping[str, str],
    ) -> None:
        log = self._log(name)
        java_options = [
            "-XX:+UseSerialGC",
            f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').as_uri()}",
            f"-Dsparkscale.log={log}",
            *(f"-D{key}={value}" for key, value in options.items()),
        ]
        quoted = " ".join(f'"{option}"' if " " in option else option for option in java_options)
        _launched[:] = [process for process in _launched if process.poll() is None]
        # What the JVM itself prints, when it can't even begin to log.
        with open(log.with_suffix(".err"), "wb") as errors:
            process = subprocess.Popen(
                [f"{env['SPARK_HOME']}/bin/spark-class", main_class, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                cwd=self.folder,
                env={**env, "SPARK_DAEMON_JAVA_OPTS": quoted},
                start_new_session=True,
            )
        _launched.append(process)
        # spark-class replaces itself by the JVM, so this is the JVM's pid too.
        note["daemons"][name] = {"pid": process.pid, "birth": birth(process.pid)}
        write_json(self._note, note)

    def _await(
        self,
        note: Mapping[str, Any],
        name: str,
        ready: Callable[[], bool],
        needed: Sequence[str] = (),
    ) -> None:
        needed = needed or [name]

        def settled() -> bool:
            return ready() or not all(_lives(note, each) for each in needed)

        came_up = processes.wait_until(settled, START_SECONDS, every=0.1)
        failed = next((each for each in needed if not _lives(note, each)), None)
        if came_up and failed is None:
            return
        tail = self._tail(failed or name)
        if failed == "master" and "Address already in use" in tail:
            raise _PortTaken(
                f"the master of the embedded cluster can't have its port {note['master_port']} or "
                f"{note['web_port']} again: another program has taken it; end that program, or "
                f"stop all streams and delete {self._note}"
            )
        did = "ended at once" if failed else f"was not ready after {START_SECONDS:.0f} s"
        raise ClusterError(
            f"the {failed or name} of the embedded cluster {did}. "
            f"The end of its log ({self._log(failed or name)}):\n{tail}"
        )

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name.replace(' ', '-')}.log"

    def _tail(self, name: str) -> str:
        lines: list[str] = []
        for path in (self._log(name).with_suffix(".err"), self._log(name)):
            with contextlib.suppress(OSError):
                lines += path.read_text(errors="replace").splitlines()[-20:]
        return "\n".join(lines[-30:])


class _PortTaken(ClusterError):
    pass


def _addresses(note: Mapping[str, Any], path: Path) -> tuple[str, str]:
    ports = [note.get("master_port"), note.get("web_port")]
    if not all(isinstance(port, int) for port in ports):
        raise ClusterError(
            f"{path}: master_port and web_port must be numbers; delete {path.parent}"
        )
    return f"spark://{HOST}:{ports[0]}", f"http://{HOST}:{ports[1]}"


def _lives(note: Mapping[str, Any], name: str) -> bool:
    daemon = (note.get("daemons") or {}).get(name) or {}
    pid, born = daemon.get("pid"), daemon.get("birth")
    return isinstance(pid, int) and pid > 0 and born is not None and birth(pid) == born


def _registered(web: str, workers: int) -> bool:
    content = masters.overview(web, 5.0)
    return (
        content is not None
        and content.get("status") == "ALIVE"
        and int(content.get("aliveworkers", 0)) >= workers
    )


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


def _marked(mark: str) -> "list[psutil.Process]":
    return processes.carrying(MARKER, lambda value: value == mark)


def _kill(mark: str) -> int:
    left = _marked(mark)
    for process in left:
        with contextlib.suppress(Exception):
            process.kill()
    return len(left)
