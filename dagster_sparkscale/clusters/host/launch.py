"""What a driver in client mode is launched with: its environment and its command line."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dagster_sparkscale.clusters.host import environments, processes
from dagster_sparkscale.clusters.host.folders import SubmissionFolder
from dagster_sparkscale.clusters.launch.driver_options import Invocation, driver_options
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.declare.stream import Stream


@dataclass(frozen=True)
class Runtime:
    """What the drivers of a cluster are run by."""

    java: Path
    spark: Path
    python: str
    executor_python: str | None
    loopback: bool
    """Whether nothing of the cluster is to be seen from other hosts."""
    agent_bind: str
    """Address that the agents listen at."""
    agent_tls: bool = False
    pass_environment: Sequence[str] = ()
    """Variables that drivers are given besides those that Spark needs: names and patterns."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that drivers need to find the cluster."""


def environment(
    stream: Stream, files: SubmissionFolder, mark: str, runtime: Runtime
) -> dict[str, str]:
    """The environment of the driver: what it is given of this process's, what Spark needs, and the
    stream's own."""
    env = environments.for_driver(os.environ, runtime.pass_environment)
    env.update(runtime.env)
    env["JAVA_HOME"] = str(runtime.java)
    env["SPARK_HOME"] = str(runtime.spark)
    env["PYTHONUNBUFFERED"] = "1"  # the log in the order in which things happened
    env["PYSPARK_DRIVER_PYTHON"] = runtime.python
    if runtime.executor_python:
        env["PYSPARK_PYTHON"] = runtime.executor_python
    # Where this package is not installed but lies on Dagster's path, the driver needs it too.
    package = str(Path(__file__).parents[3])
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), package]))
    if runtime.loopback:
        env["SPARK_LOCAL_IP"] = "127.0.0.1"  # or the UI would listen on every interface
    env.update(stream.env)
    # Settings travel in a file: arguments show in process lists.
    env["PYSPARK_SUBMIT_ARGS"] = shlex.join(
        ["--properties-file", str(files.properties), "pyspark-shell"]
    )
    env[processes.MARKER] = mark
    return env


def command(
    call: Invocation, start: EpochStart, files: SubmissionFolder, runtime: Runtime
) -> list[str]:
    """The command line of the driver. Holds no secret."""
    return [
        *(runtime.python, "-m", "dagster_sparkscale.driver"),
        *driver_options(call.stream, start),
        *("--token-file", str(files.token), "--announce", str(files.agent)),
        *("--bind", runtime.agent_bind),
        *(("--certificate", str(files.certificate)) if runtime.agent_tls else ()),
        *(("--key", str(files.key)) if runtime.agent_tls else ()),
        *(str(call.program), *call.arguments),
    ]
