"""What a driver in cluster mode is submitted with: its Spark settings and its command line. Pure.

What must not change: nothing secret is on the command line, nor in the script by which YARN starts
the driver: a copy of that lies beside the logs. The agent's token and key and the stream's `env`
travel as private files, as Spark's settings do; they pass the staging folder, which is the user's
alone.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from dagster_sparkscale.clusters.launch.driver_options import Invocation, driver_options
from dagster_sparkscale.clusters.launch.spark_settings import settings
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.yarn import applications

MAIN = "sparkscale_driver.py"
"""The main file of spark-submit; a copy of the driver's `__main__.py`."""
_TOKEN, _CERTIFICATE, _KEY = "sparkscale-token", "sparkscale-certificate", "sparkscale-key"
_ENVIRONMENT = "sparkscale-environment"
_FOUND_BY = (
    *("CLASSPATH", "HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_*_HOME", "JAVA_*", "LD_*", "PATH"),
    *("PYSPARK_*", "PYTHON*", "SPARK*", "YARN_*"),
)
"""Variables by which the starting script finds Java, Hadoop, Spark and Python, or that Spark adds
to: they have to be in it. Whatever begins with SPARK, Spark puts into those of executors too."""
_REDACTED = "(?i)secret|password|token|access[.]?key|^spark[.]yarn[.]appMasterEnv[.]"
"""Spark's own, and the environment of a stream, which its pages would show."""


@dataclass(frozen=True)
class Place:
    """The queue, the user and the folders with which a cluster runs drivers."""

    queue: str
    python: str
    """The Python on the nodes."""
    tags: Sequence[str] = ()
    staging_dir: str | None = None
    principal: str | None = None
    keytab: str | None = None


@dataclass(frozen=True)
class Files:
    """The files on this host that are shipped with a driver."""

    token: Path
    certificate: Path
    key: Path
    environment: Path
    parcel: Path
    program: Path


def environment(env: Mapping[str, str]) -> str:
    """A script that bash reads before it starts the driver's JVM: the stream's variables that
    YARN's own script does not need."""
    carried = {name: value for name, value in env.items() if not _in_script(name)}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(carried.items())]
    # Or every bash that the program starts would read them anew.
    return "\n".join(["unset BASH_ENV", *lines, ""])


def _in_script(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in _FOUND_BY)


def tags(record: Record, more: Sequence[str]) -> list[str]:
    """The tags that find a driver, and any other driver on its checkpoint."""
    ours = [applications.of_record(record.id), applications.of_epoch(record.id, record.epoch)]
    if record.checkpoint is not None:
        ours.append(applications.of_checkpoint(record.checkpoint))
    return [*ours, *more]


def spark_settings(
    call: Invocation, record: Record, common: Mapping[str, str], place: Place, files: Files
) -> dict[str, str]:
    """All settings of the application. Those that would break what we rely on are overridden."""
    stream = call.stream
    made = {
        "spark.yarn.queue": place.queue,
        "spark.redaction.regex": _REDACTED,
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": place.python,
        "spark.executorEnv.PYSPARK_PYTHON": place.python,
        "spark.yarn.appMasterEnv.PYTHONUNBUFFERED": "1",
        # An executor that is refused or lost is no reason to end a stream: the agent states the
        # target again.
        "spark.executor.maxNumFailures": "1000000",
        **common,
    }
    made |= {
        f"spark.yarn.appMasterEnv.{name}": value
        for name, value in stream.env.items()
        if _in_script(name)
    }
    asked = settings(stream, record.epoch, "yarn", made, more=call.settings)
    bounds = stream.bounds
    executors = bounds.initial if record.executors is None else record.executors
    asked |= {
        "spark.submit.deployMode": "cluster",
        "spark.submit.pyFiles": _joined(str(files.parcel), asked.get("spark.submit.pyFiles")),
        "spark.yarn.dist.files": _joined(
            f"{files.token}#{_TOKEN}",
            f"{files.certificate}#{_CERTIFICATE}",
            f"{files.key}#{_KEY}",
            f"{files.environment}#{_ENVIRONMENT}",
            str(files.program),
            asked.get("spark.yarn.dist.files"),
        ),
        "spark.yarn.tags": _joined(*tags(record, place.tags), asked.get("spark.yarn.tags")),
        # A second driver would have the epoch of the first.
        "spark.yarn.maxAppAttempts": "1",
        # What bash reads before it starts the JVM.
        "spark.yarn.appMasterEnv.BASH_ENV": f"./{_ENVIRONMENT}",
        "spark.yarn.submit.waitAppCompletion": "false",
        "spark.executor.instances": str(executors),
        # By its pages the agent is found.
        "spark.ui.enabled": "true",
    }
    if place.staging_dir:
        asked["spark.yarn.stagingDir"] = place.staging_dir
    if place.principal:
        asked["spark.kerberos.principal"] = place.principal
    if place.keytab:
        asked["spark.kerberos.keytab"] = place.keytab
    return asked


def driver_arguments(call: Invocation, start: EpochStart, bind: str) -> list[str]:
    """The arguments of the main file, which finds its files in the folder of its container."""
    return [
        *driver_options(call.stream, start),
        *("--token-file", _TOKEN, "--certificate", _CERTIFICATE, "--key", _KEY),
        *("--bind", bind, "--last-words", "-"),
        *(call.program.name, *call.arguments),
    ]


def _joined(*parts: str | None) -> str:
    return ",".join(filter(None, parts))
