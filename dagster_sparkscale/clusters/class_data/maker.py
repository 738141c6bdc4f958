"""Makes one archive of class data: a run of Spark that loads the classes, and a check of the file.

What must not change: the file gets its name when it is whole and on the disk; nothing that was
started for it is left when it is done, or has failed, or has taken too long.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_sparkscale.clusters.class_data import program
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import processes

if TYPE_CHECKING:
    import psutil

MARKER = "SPARKSCALE_CLASS_DATA"
"""Environment variable of the maker and of all it starts."""
LIMIT_SECONDS = 900.0
"""Beside other work on a small machine, at the lowest priority, it takes minutes."""
_LEAST_FREE_BYTES = 1 << 30
# What the making needs and nothing else: options for other JVMs, settings of another Spark and
# secrets stay out.
_KEPT_ENV = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


class CannotMake(Exception):
    """The archive can't be made; says why."""


def make_archive(java: Path, spark: Path, archive: Path) -> None:
    """Make `archive`. The caller holds its lock.

    Raises:
        CannotMake: the archive can't be made; says why.
        OSError: the folder can't be written.
    """
    conf = spark / "conf"
    if conf.is_dir() and any(conf.iterdir()):
        raise CannotMake(
            f"{conf} holds files, and a JVM shares no class data with a folder of files on its "
            "class path"
        )
    work = archive.with_suffix(".making")
    shutil.rmtree(work, ignore_errors=True)  # of a maker that was killed
    try:
        work.mkdir(mode=0o700)
        if shutil.disk_usage(work).free < _LEAST_FREE_BYTES:
            raise CannotMake(f"less than 1 GB is free on the disk of {archive.parent}")
        made = work / "archive.jsa"
        _run(java, spark, work, made)
        _check(java, made)
        with open(made, "rb") as file:
            os.fsync(file.fileno())
        made.chmod(0o444)  # the folder keeps others out, until it is copied into an image
        made.replace(archive)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(java: Path, spark: Path, work: Path, made: Path) -> None:
    """Run the training program in a driver's JVM that writes the archive when it ends."""
    mark = os.environ.get(MARKER) or secrets.token_hex(8)
    env = {key: value for key, value in os.environ.items() if key in _KEPT_ENV}
    env |= {
        "JAVA_HOME": str(java),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "TMPDIR": str(work),
        "SPARK_LOCAL_DIRS": str(work),
        MARKER: mark,
    }
    log = work / "log"
    command = [sys.executable, "-I", program.__file__, str(spark), str(work), str(made)]
    try:
        with open(log, "wb") as output:
            process = subprocess.Popen(
                command,
                # It ends when this pipe does, that is, with this process.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=work,
                env=env,
                start_new_session=True,
            )
            code = process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise CannotMake(f"it was not made within {LIMIT_SECONDS:.0f} s") from None
    finally:
        kill_makers(mark, os.getpid())
    if code or not made.is_file():
        lines = log.read_text(errors="replace").strip().splitlines()[-20:]
        raise CannotMake("\n".join([f"the run that loads the classes failed ({code}):", *lines]))


def _check(java: Path, made: Path) -> None:
    """Have a JVM look at the checksums: it must start with this archive or not at all."""
    class_path = made.with_name("class-path").read_text()
    command = [
        *(str(java / "bin/java"), "-Xshare:on", "-XX:+VerifySharedSpaces"),
        *(f"-XX:SharedArchiveFile={made}", "-cp", class_path, "-version"),
    ]
    env = {key: value for key, value in os.environ.items() if key in _KEPT_ENV}
    try:
        subprocess.run(command, capture_output=True, env=env, timeout=120, check=True)
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", None) or b""
        raise CannotMake(
            f"the archive that was made is of no use: {error}\n{said.decode(errors='replace')}"
        ) from error


def kill_makers(mark: str, spare: int | None = None) -> None:
    """Kill a maker and what it has started, all of which carry `mark`, except the process `spare`.
    What can't be killed is left."""

    def left() -> "list[psutil.Process]":
        there = processes.carrying(MARKER, mark.__eq__)
        return [process for process in there if process.pid != spare]

    with contextlib.suppress(ClusterError):
        processes.kill_all(left, "")
