"""How what tests start runs: it lives for seconds, and most of its work is to start.

Measured with one session and one query of Spark 4.3 on Java 17, in seconds of CPU: 24 as Java does
by itself; 12.5 with the first of its two compilers and its simplest garbage collector only; 6 with
an archive of class data on top. The first run that has a test of Spark makes that archive, while
tests that need no Spark run. A Python process of Spark's takes 1.1 by itself and 0.4 with
`quick_python` on its path.
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import MutableMapping
from pathlib import Path

import pyspark

from dagster_sparkscale.clusters.class_data import archives
from dagster_sparkscale.clusters.class_data.maker import CannotMake
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.launch import class_data_options
from dagster_sparkscale.driver.spark.releases import minor
from dev.go_programs import USERS_CACHE

CACHE = Path(__file__).parent.parent / ".cache"
QUICK_PYTHON = Path(__file__).parent / "quick_python"
EXECUTORS = {"spark.executorEnv.PYTHONPATH": str(QUICK_PYTHON)}
"""Settings of a stream. A cluster's workers do not hand on what they have of this environment."""
_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
# The archive at the address it was made for. Elsewhere, where an attacker has to look for it, each
# JVM would rewrite 160 MB of pointers.
_IN_PLACE = ["-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"]
# Of checkpoints in a local folder. Spark's own choice has Hadoop start 24 processes for each batch,
# chmod and readlink, which takes nearly as long as a small batch itself.
_CHECKPOINTS = (
    "-Dspark.sql.streaming.checkpointFileManagerClass=org.apache.spark.sql.execution.streaming"
    f"{'' if minor(pyspark.__version__) in ('3.5', '4.0') else '.checkpointing'}"
    ".FileSystemBasedCheckpointFileManager"
)
_READ_BY_EVERY_JVM = "JDK_JAVA_OPTIONS"
NO_ARCHIVE = "TESTS_WITHOUT_CLASS_DATA"
"""Environment variable: if it is set, no archive is made. For a Spark that one test runs on."""


def for_short_lives(environ: MutableMapping[str, str]) -> None:
    """Have every JVM and every Python that are started with `environ` start fast.

    JVM options that somebody has set there win, as they come last.
    """
    path = [str(QUICK_PYTHON), environ.get("PYTHONPATH", "")]
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    # Where a LocalCluster looks for its archive: the tests leave nothing in a user's own folder.
    environ.setdefault(USERS_CACHE, environ.get("XDG_CACHE_HOME", ""))
    environ["XDG_CACHE_HOME"] = str(CACHE)
    # Two collectors are one too many for a JVM.
    all_given = " ".join(environ.get(name, "") for name in class_data_options.VARIABLES)
    ours = [each for each in _OPTIONS if not ("GC" in each and re.search(r"Use\w+GC", all_given))]
    _put_first(environ, [*ours, _CHECKPOINTS, *_archive(CACHE)])


def begin_archive() -> None:
    """Have the archive of class data made in the background, unless it is there."""
    if not (os.environ.get(NO_ARCHIVE) or _archive(CACHE)):
        command = [sys.executable, "-m", archives.__package__]
        nowhere = subprocess.DEVNULL
        subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)


def with_archive(environ: MutableMapping[str, str]) -> None:
    """Wait for the archive, and have every JVM that is started with `environ` use it.

    Does nothing the second time, nor where the archive can't be made: JVMs only start slower then.
    """
    if environ.get(NO_ARCHIVE) or _IN_PLACE[-1] in environ.get(_READ_BY_EVERY_JVM, ""):
        return
    with contextlib.suppress(ClusterError, CannotMake, OSError):
        archives.make(java_home(), spark_home(), archives.user_folder())
    _put_first(environ, _archive(CACHE))


def _put_first(environ: MutableMapping[str, str], options: list[str]) -> None:
    quoted = [f'"{each}"' if " " in each else each for each in options]
    given = environ.get(_READ_BY_EVERY_JVM, "")
    environ[_READ_BY_EVERY_JVM] = " ".join([*quoted, given]).strip()


def _archive(cache: Path) -> list[str]:
    with contextlib.suppress(ClusterError, CannotMake, OSError):
        archive = archives.archive_path(
            java_home(), spark_home(), cache / "dagster-sparkscale" / "class-data"
        )
        if archives.is_whole(archive):
            return [*class_data_options.options(archive), *_IN_PLACE]
    return []
