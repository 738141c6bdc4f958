"""Runs `spark-submit`, and other programs of Hadoop's, on the host that Dagster runs on."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import environments, processes

SUBMIT_SECONDS = 600.0
"""How long it may take: without `spark.yarn.jars` or `.archive` it uploads Spark itself."""
_SAID = 15
"""Lines of what a program said that are told."""


@dataclass(frozen=True)
class Client:
    """What it takes to be a client of a YARN."""

    java: Path
    spark: Path
    conf_dir: str
    user: str | None
    passed: Sequence[str] = ()

    def environment(self) -> dict[str, str]:
        inherited = environments.for_driver(os.environ, self.passed)
        # spark-submit would hand on what this host's Python is to nodes that have another.
        env = {name: value for name, value in inherited.items() if not name.startswith("PYSPARK_")}
        env |= {"JAVA_HOME": str(self.java), "SPARK_HOME": str(self.spark)}
        return env | client_env(self.conf_dir, self.user)

    def submit(
        self, properties: Path, main: Path, arguments: Sequence[str], mark: str
    ) -> str | None:
        """Submit an application and return once YARN has it, or why it does not.

        Args:
            mark: the mark of its process, which finds it should this process die.
        """
        command = [str(self.spark / "bin" / "spark-submit"), "--properties-file", str(properties)]
        return self._run([*command, str(main), *arguments], {processes.MARKER: mark})

    def remove(self, place: str) -> str | None:
        """Remove a folder of the cluster's file system; returns the fault, or None. A missing
        folder is no fault."""
        parts = urlsplit(place)
        if parts.scheme == "file":
            shutil.rmtree(parts.path, ignore_errors=True)
            return f"{parts.path}: is there still" if os.path.exists(parts.path) else None
        shell = [str(self.spark / "bin" / "spark-class"), "org.apache.hadoop.fs.FsShell"]
        return self._run([*shell, "-rm", "-r", "-f", "-skipTrash", place], {})

    def _run(self, command: Sequence[str], more: Mapping[str, str]) -> str | None:
        try:
            done = subprocess.run(
                command,
                env={**self.environment(), **more},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=SUBMIT_SECONDS,
                check=False,
            )
        except OSError as error:
            raise ClusterError(f"{command[0]}: {error.strerror or error}") from error
        except subprocess.TimeoutExpired:
            return f"{command[0]} has not ended within {SUBMIT_SECONDS:g} s"
        return None if done.returncode == 0 else said(done.stdout)


def client_env(conf_dir: str, user: str | None) -> dict[str, str]:
    """The variables by which a client of Hadoop finds its cluster, and who it is there."""
    env = {"HADOOP_CONF_DIR": conf_dir, "YARN_CONF_DIR": conf_dir}
    return {**env, "HADOOP_USER_NAME": user} if user else env


def said(output: str) -> str:
    """The end of a Hadoop program's output, without Java's stack traces."""
    lines = [line for line in output.splitlines() if not line.lstrip().startswith("at ")]
    return "\n".join(lines[-_SAID:])
