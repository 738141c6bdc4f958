"""How one daemon of a Standalone cluster is started: its options, environment and log.

What must not change: both listen on the loopback only; the master never takes another port than
the one it is given; the cluster's secret is in no argument and no log; whatever they write is
bounded, for streams run for months.
"""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dagster_sparkscale.clusters.host import environments
from dagster_sparkscale.clusters.host.folders import make_private
from dagster_sparkscale.clusters.host.processes import start_detached
from dagster_sparkscale.clusters.launch.spark_settings import in_one_line

MARKER = "SPARKSCALE_CLUSTER"
"""Environment variable of the daemons, which their executors inherit."""
HOST = "127.0.0.1"
_DAEMON_MEMORY = "256m"
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


@dataclass(frozen=True)
class Installation:
    """What the daemons are started with, and where they keep what is theirs."""

    folder: Path
    java: Path
    spark: Path
    mark: str
    java_options: Sequence[str] = ()
    pass_environment: Sequence[str] = ()
    """Variables that workers are given besides those that Spark needs: names and patterns."""
    secret: str | None = field(default=None, repr=False)
    """What whoever talks to the cluster must know; None: it takes everybody."""

    def prepare(self) -> None:
        """Make the folders and the log settings.

        Raises:
            OSError: a folder can't be made.
        """
        for name in ("recovery", "work", "logs"):
            make_private(self.folder / name)
        (self.folder / "log4j2.properties").write_text(_LOG4J)

    def start_master(self, port: int, web_port: int) -> subprocess.Popen[bytes]:
        """Start the master, detached.

        Raises:
            OSError: it could not be started.
        """
        options = {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(self.folder / "recovery"),
            # How long, in seconds, a restarted master waits for workers that died with it.
            "spark.deploy.recoveryTimeout": "15",
            # A second way in, which nothing here uses.
            "spark.master.rest.enabled": "false",
            # Or a taken port would silently become another address.
            "spark.port.maxRetries": "0",
        }
        arguments = ["--host", HOST, "--port", str(port), "--webui-port", str(web_port)]
        return self._start("master", "org.apache.spark.deploy.master.Master", arguments, options)

    def start_worker(
        self, name: str, master: str, cores: int, memory: str
    ) -> subprocess.Popen[bytes]:
        """Start a worker, detached.

        Raises:
            OSError: it could not be started.
        """
        options = {
            "spark.worker.cleanup.enabled": "true",
            "spark.worker.cleanup.interval": "600",
            "spark.worker.cleanup.appDataTtl": "3600",
            "spark.executor.logs.rolling.strategy": "size",
            "spark.executor.logs.rolling.maxSize": "10000000",
            "spark.executor.logs.rolling.maxRetainedFiles": "3",
        }
        arguments = ["--host", HOST, "--webui-port", "0", "--cores", str(cores)]
        arguments += ["--memory", memory, "--work-dir", str(self.folder / "work"), master]
        return self._start(name, "org.apache.spark.deploy.worker.Worker", arguments, options)

    def _start(
        self, name: str, main_class: str, arguments: Sequence[str], options: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        log = log_of(self.folder, name)
        java_options = [
            "-XX:+UseSerialGC",
            *self.java_options,
            f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').as_uri()}",
            f"-Dsparkscale.log={log}",
            *(["-Dspark.authenticate=true"] if self.secret else []),
            *(f"-D{key}={value}" for key, value in options.items()),
        ]
        # What the JVM itself prints, when it can't even begin to log.
        with open(log.with_suffix(".err"), "wb") as errors:
            # spark-class replaces itself by the JVM, so the pid is the JVM's too.
            return start_detached(
                [str(self.spark / "bin/spark-class"), main_class, *arguments],
                {**self._environment(), "SPARK_DAEMON_JAVA_OPTS": in_one_line(java_options)},
                errors,
                self.folder,
            )

    def _environment(self) -> dict[str, str]:
        # Executors inherit what their worker has: the credentials in the environment, as the
        # drivers do.
        return {
            **environments.for_worker(os.environ, self.pass_environment),
            # Spark takes it from there before its settings. Arguments would show in process lists.
            **({"_SPARK_AUTH_SECRET": self.secret} if self.secret else {}),
            "JAVA_HOME": str(self.java),
            "SPARK_HOME": str(self.spark),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            MARKER: self.mark,
        }


def log_of(folder: Path, name: str) -> Path:
    """The log of the daemon called `name`."""
    return folder / "logs" / f"{name.replace(' ', '-')}.log"


def tail_of(folder: Path, name: str) -> str:
    """The last lines that the daemon called `name` has written, without stack frames: what it ended
    of stands before them."""
    lines: list[str] = []
    for path in (log_of(folder, name).with_suffix(".err"), log_of(folder, name)):
        with contextlib.suppress(OSError):
            written = path.read_text(errors="replace").splitlines()
            lines += [line for line in written if not line.startswith("\tat ")][-20:]
    return "\n".join(lines[-30:])
