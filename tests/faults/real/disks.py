"""Disks that are full, out of inodes or read-only: the state folder, the checkpoint, Dagster's own.

A disk is a file system of its own in memory, which only root may mount.
"""

import contextlib
import errno
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dagster_sparkscale import LocalCluster, RatioPolicy
from tests.e2e.deployment import Deployment, deployed, failure, paced_stream, told
from tests.faults.real.watched import RESTARTED_AT_ONCE, Record, goes_on, recovers, restarts, ticked
from tests.waiting import wait_for

_BYTES, _INODES = 400_000_000, 20_000
WHERE = ("state-folder", "checkpoint", "dagster-home")


class Disk:
    """A file system at a folder, mounted while this context lasts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> "Disk":
        self.folder.mkdir()
        how = f"size={_BYTES},nr_inodes={_INODES},mode=0700"
        _run("mount", "-t", "tmpfs", "-o", how, "tmpfs", str(self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        _run("umount", "--lazy", str(self.folder))

    @contextmanager
    def full(self) -> Iterator[None]:
        """Not a byte is left."""
        filler = self.folder / "filler"
        try:
            with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            yield
        finally:
            filler.unlink()

    @contextmanager
    def without_inodes(self) -> Iterator[None]:
        """No further file can be made; those that are there can be written."""
        fillers = self.folder / "fillers"
        fillers.mkdir()
        made = []
        try:
            with contextlib.suppress(OSError):
                for number in range(_INODES + 1):
                    made.append(fillers / str(number))
                    made[-1].touch()
            yield
        finally:
            for each in made:
                each.unlink(missing_ok=True)
            fillers.rmdir()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nothing can be changed. Files that are open for writing keep a system from this, so it is
        what is mounted over the folder that is read-only, for all that is opened from now on."""
        _run("mount", "--bind", str(self.folder), str(self.folder))
        try:
            _run("mount", "-o", "remount,bind,ro", str(self.folder))
            yield
        finally:
            _run("umount", "--lazy", str(self.folder))


FAULTS: dict[str, Callable[[Disk], contextlib.AbstractContextManager[None]]] = {
    "full": Disk.full,
    "no-inodes": Disk.without_inodes,
    "read-only": Disk.read_only,
}


def play(where: str, fault: str, folder: Path, conf: dict[str, object], record: Record) -> None:
    """The stream is steered while the disk is broken; in the end it runs and can be steered."""
    home = folder / "home"
    with Disk(folder / "disk") as disk:
        at = {each: folder / each for each in WHERE} | {where: disk.folder / where}
        home = at["dagster-home"]
        home.mkdir()
        cluster = LocalCluster(
            state_dir=str(at["state-folder"]), workers=1, memory_per_worker="4g", spark_conf=conf
        )
        stream = paced_stream(
            f"on_a_disk_{WHERE.index(where)}_{fault.replace('-', '_')}",
            folder,
            checkpoint_location=str(at["checkpoint"]),
            autoscale=RatioPolicy(interval=10, min_executors=1, max_executors=3),
            recovery=RESTARTED_AT_ONCE,
        )
        try:
            with deployed(cluster, stream, home) as d:
                told(d.materialize())
                wait_for("a batch", lambda: (s := d.status()) and s.registered == 1 and s.batches)
                with FAULTS[fault](disk):
                    seen = f"{_steered(d)}; {_watched(d)}"
                recovers(record, "the stream to run", lambda: _runs(d))
                story = told(d.run("rescale", target=2))
                assert story["ending"] == "reached", story
                record("seen", f"{seen}; {restarts(d)}")
        finally:
            cluster.shutdown(force=True)


def _steered(d: Deployment) -> str:
    """What became of a rescale on the broken disk: it is carried out, or says what is wrong."""
    try:
        result = d.run("rescale", target=2, wait_seconds=20)
    except Exception as error:  # Dagster's own storage
        assert _is_of_the_disk(error), error
        return "no run could be stored"
    if result.success:
        return f"a rescale ended as {told(result)['ending']}"
    text = failure(result)
    reasons = (
        "No space left on device",
        "Read-only file system",
        "is not running",
        "no answer",
        "the driver is ended",
    )
    assert any(reason in text for reason in reasons), text
    return f"a rescale failed, and said: {next(reason for reason in reasons if reason in text)}"


def _watched(d: Deployment) -> str:
    try:
        ticked(d)
    except Exception as error:
        assert _is_of_the_disk(error), error
        return "the tick failed for want of Dagster's storage"
    return "the tick went on"


def _is_of_the_disk(error: BaseException | None) -> bool:
    while error is not None:
        text = str(error)
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EROFS) or any(
            each in text
            for each in ("disk is full", "readonly database", "unable to open", "disk I/O")
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def _runs(d: Deployment) -> bool:
    ticked(d)
    return goes_on(d, lambda status: status.batches and status.phase == "running")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
