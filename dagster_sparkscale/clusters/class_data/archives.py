"""Class-data sharing: an archive of loaded classes that JVMs of Spark map instead of parsing jars.

    python -m dagster_sparkscale.clusters.class_data --folder F     makes one and prints its path

    <folder>/spark-4.3.0-java-17.0.15-<hash>.jsa     the archive, of one Java and one set of jars
    <folder>/spark-4.3.0-java-17.0.15-<hash>.json    its size and time, or why it could not be made

What must not change: a JVM runs what an archive holds, so none is taken from a folder that another
user can write; an archive appears whole or not at all, for Java 17 dies of a truncated one; where
there is none to be had, nothing fails and no JVM prints a word of it.
"""

import contextlib
import functools
import hashlib
import logging
import os
import re
import stat
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

from dagster_sparkscale.clusters.class_data.maker import (
    LIMIT_SECONDS,
    MARKER,
    CannotMake,
    kill_makers,
    make_archive,
)
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.host.folders import read_json
from dagster_sparkscale.clusters.host.supervisor import write_json
from dagster_sparkscale.clusters.launch.class_data_options import can_be_named
from dagster_sparkscale.clusters.pauses import wait_until

DELAY_SECONDS = 60.0
"""How long a background maker waits first: the streams being started have the machine then, and a
cluster that is gone after a minute has cost nothing."""
_RETRY_SECONDS = 24 * 3600.0
_KEPT = 3
# Another one whenever what the archive is made with changes.
_RECIPE = "1"
_KILLED = "its maker was killed"

_log = logging.getLogger(__name__)


def user_folder() -> Path:
    """The folder of this user's archives.

    Raises:
        RuntimeError: the user has no home folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME")
    # A relative one is to be ignored, says the XDG specification.
    base = Path(cache) if cache and Path(cache).is_absolute() else Path("~/.cache").expanduser()
    return base / "dagster-sparkscale" / "class-data"


def archive_path(java: Path, spark: Path, folder: Path) -> Path:
    """The archive for this Java and this Spark, whether or not it has been made.

    Raises:
        OSError: the one or the other can't be looked at.
    """
    release = _text(java / "release")
    library = next(iter(sorted(java.glob("lib/**/libjvm.*"))), java / "bin/java")
    jars = sorted((spark / "jars").glob("*.jar"))
    parts = [_RECIPE, str(java.resolve()), release, str(spark.resolve())]
    parts += [
        f"{path.name} {found.st_size} {found.st_mtime_ns}"
        for path in (library, *jars)
        for found in [path.stat()]
    ]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    core = next((jar.stem for jar in jars if jar.name.startswith("spark-core_")), "")
    versions = core.rpartition("-")[2] or "unknown", _java_version(release)
    return folder / f"spark-{versions[0]}-java-{versions[1]}-{digest}.jsa"


def fault(folder: Path) -> str | None:
    """Why nothing in `folder` may be given to a JVM; None if it may."""
    try:
        folder = folder.resolve(strict=True)
        for each in (folder, *folder.parents):
            found = each.stat()
            if found.st_uid not in (os.geteuid(), 0):
                return f"{each} belongs to another user"
            sticky = each != folder and found.st_mode & stat.S_ISVTX
            if found.st_mode & 0o022 and not sticky:
                return f"{each} can be written by other users"
    except (OSError, RuntimeError) as error:
        return f"{folder}: {error}"
    return None


def is_whole(archive: Path) -> bool:
    """Whether `archive` is as it was made."""
    note = _note(archive)
    try:
        found = archive.stat()
    except OSError:
        return False
    mine = found.st_uid in (os.geteuid(), 0) and not found.st_mode & 0o022
    return mine and [note.get("size"), note.get("mtime_ns")] == [found.st_size, found.st_mtime_ns]


def make(java: Path, spark: Path, folder: Path, wait: float = LIMIT_SECONDS) -> Path:
    """Make the archive unless there is one.

    Args:
        wait: seconds to wait for another process that makes it.

    Raises:
        CannotMake: it can't be made.
    """
    try:
        archive = archive_path(java, spark, _private(folder))
        with FileLock(archive.with_suffix(".lock"), timeout=wait, mode=0o600):
            if not is_whole(archive):
                _make_anew(java, spark, archive)
    except Timeout:
        raise CannotMake(f"another process is making {archive}") from None
    except (OSError, RuntimeError) as error:
        raise CannotMake(str(error)) from error
    return archive


def _make_anew(java: Path, spark: Path, archive: Path) -> None:
    # Until another note is there, there is no archive; and a maker that is killed, as where memory
    # is short, is not followed by the next at every start.
    _note_failure(archive, _KILLED)
    try:
        make_archive(java, spark, archive)
        found = archive.stat()
    except (CannotMake, OSError) as error:
        with contextlib.suppress(OSError):
            _note_failure(archive, str(error))
        raise
    except BaseException:
        # It was told to end: the next start may try.
        with contextlib.suppress(OSError):
            _note_of(archive).unlink()
        raise
    write_json(_note_of(archive), {"size": found.st_size, "mtime_ns": found.st_mtime_ns})
    with contextlib.suppress(OSError, RuntimeError):
        _prune(archive)


def _note_failure(archive: Path, reason: str) -> None:
    write_json(_note_of(archive), {"failed_at": time.time(), "reason": reason})


def _private(folder: Path) -> Path:
    real = folder.resolve()
    if not can_be_named(real):
        raise CannotMake(f"{real}: the path has a character that options of a JVM can't have")
    # Each by itself: the mode that mkdir is given is that of the last one only.
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(exist_ok=True, mode=0o700)
    if reason := fault(folder):
        raise CannotMake(reason)
    return real


def _prune(newest: Path) -> None:
    """Remove what earlier versions of Java and Spark have left; a JVM that runs keeps its own.

    Not in a folder that somebody has chosen: other clusters may name what is there.
    """
    if newest.parent != user_folder().resolve():
        return
    archives = [each for each in newest.parent.glob("spark-*.jsa") if each != newest]
    archives.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for old in archives[_KEPT - 1 :]:
        for path in (old, _note_of(old)):
            path.unlink(missing_ok=True)


def see_to(java: Path, spark: Path, mark: str) -> Path | None:
    """The archive in this user's folder; if it is not there, it is made in the background.

    Args:
        mark: what `end_making` ends the background maker by.

    Returns:
        None if there is none yet, or none to be had.
    """
    try:
        folder = _private(user_folder())
        archive = archive_path(java, spark, folder)
        if is_whole(archive):
            return archive
        failed_at = _note(archive).get("failed_at")
        # A clock that was set back does not keep it from being tried again.
        if isinstance(failed_at, int | float) and 0 <= time.time() - failed_at < _RETRY_SECONDS:
            return None
        _start_making(java, spark, archive, mark)
    except (CannotMake, ClusterError, OSError, RuntimeError) as error:
        _log.debug("no archive of class data: %s", error)
    return None


def _start_making(java: Path, spark: Path, archive: Path, mark: str) -> None:
    if _is_held(archive.with_suffix(".waiting.lock")):
        return  # a maker waits or works already
    package = str(Path(__file__).parents[3])
    command = [sys.executable, "-m", __package__, "--folder", str(archive.parent), "--background"]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), package]))
    processes.start_detached(
        [*command, "--java", str(java), "--spark", str(spark)],
        {**os.environ, "PYTHONPATH": path, MARKER: mark},
        folder=archive.parent,
    )


def end_making(mark: str) -> None:
    """End the background maker with that mark, and what it has started. One that is told to end
    clears away what it has; one that does not heed is killed."""
    for process in processes.carrying(MARKER, mark.__eq__):
        with contextlib.suppress(Exception):
            process.terminate()  # psutil checks first that the pid is still the same process
    wait_until(lambda: not processes.carrying(MARKER, mark.__eq__), processes.TERM_SECONDS)
    kill_makers(mark)


def make_in_background(java: Path, spark: Path, folder: Path) -> None:
    """Make the archive later and beside all else, unless another process is about to."""
    archive = archive_path(java, spark, _private(folder))
    with (
        contextlib.suppress(Timeout),
        FileLock(archive.with_suffix(".waiting.lock"), timeout=0, mode=0o600),
    ):
        os.nice(19)
        # Where memory runs out, streams matter more than how fast they start.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        time.sleep(DELAY_SECONDS)
        make(java, spark, folder, wait=0)


def _note_of(archive: Path) -> Path:
    return archive.with_suffix(".json")


def _note(archive: Path) -> dict[str, object]:
    try:
        return read_json(_note_of(archive)) or {}
    except ClusterError:
        return {}


def describe(java: Path, spark: Path, folder: Path) -> str:
    """What there is to say of the archive to somebody who asks."""
    try:
        archive = archive_path(java, spark, folder)
        if reason := (fault(folder) if folder.exists() else None):
            return f"none ({reason})"
        if is_whole(archive):
            return f"there is one: {archive}"
        reason = str(_note(archive).get("reason") or "not made yet")
        if reason == _KILLED and _is_held(archive.with_suffix(".lock")):
            reason = "it is being made"
    except OSError as error:
        return f"none ({error})"
    return f"none ({reason.splitlines()[0][:200]})"


def _is_held(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0, mode=0o600):
            return False
    except Timeout:
        return True


@functools.cache
def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _java_version(release: str) -> str:
    found = re.search(r'^JAVA_VERSION="([\w.+-]+)"', release, re.MULTILINE)
    return found.group(1) if found else "unknown"
