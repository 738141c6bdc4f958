"""What is remembered of streams on this host: a folder of small files for each.

    <state_dir>/streams/<name>/record/<revision>      epoch, lease, what is wanted, its starts
    <state_dir>/streams/<name>/submissions/<epoch>/   settings, token, log and fate of one driver

What must not change: files are replaced as a whole and readable by their owner only; an epoch never
goes back, and a submission's folder is made once; a file that cannot be read is an error that names
it, never taken for a stream that was never started, for that would put a second driver on its
checkpoint.
"""

import fcntl
import json
import os
import pwd
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dagster_sparkscale import typed_json
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.registers import Register
from dagster_sparkscale.clusters.host.supervisor import bytes_of, numbers_in
from dagster_sparkscale.clusters.records.store import Conflict, Record
from dagster_sparkscale.observe.end_report import (
    LineageEnd,
    Slots,
    Stopped,
    raised,
    read_lineage_end,
    read_slots,
    read_stopped,
)

HISTORY = 50
KEPT_SUBMISSIONS = 5
LAST_LINES = 200
"""Lines of a failed driver's log that are searched for the error that the program raised."""
_RECORD = TypeAdapter(Record)
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")


def is_name(text: str) -> bool:
    """Whether it can be a stream's."""
    return _NAME.match(text) is not None


class StreamFolder:
    """The folder of one stream."""

    def __init__(self, state_dir: Path, stream: str) -> None:
        # Names become folder names: nothing but a declared stream's name may pass.
        if not is_name(stream):
            raise ClusterError(f"stream = {stream!r}: must be letters, digits and underscores")
        self.stream = stream
        self.state_dir = state_dir
        self.path = Path(state_dir, "streams", stream)
        self._records = Register(self.path / "record")

    def create(self) -> None:
        """Make the folder, readable by this user only.

        Raises:
            ClusterError: it can't be made, or others may write to it; names the folder.
        """
        with explained("make", self.path):
            for folder in (self.path.parent.parent, self.path.parent, self.path):
                make_private(folder)

    def read(self) -> Record | None:
        """The record, or None if nothing is remembered.

        Raises:
            ClusterError: the record can't be read; names the file and what to do about it.
        """
        with explained("read", self._records.folder):
            found = self._records.read()
        if found is None:
            if self._epochs():
                raise ClusterError(
                    f"{self._records.folder}: missing, though {self.path / 'submissions'} shows "
                    f"that {self.stream!r} has been started: put the folder back, or, when no "
                    f"driver of {self.stream!r} runs any more, delete {self.path}"
                )
            return None
        path, text = found
        try:
            # The name counts: a person may have put an older one back under the newest.
            return replace(typed_json.read(_RECORD, text), revision=int(path.name))
        except typed_json.Malformed as error:
            raise ClusterError(f"{path}: {error}; {newer_or(_repair(path, self.path))}") from None

    def swap(self, record: Record) -> None:
        """Put `record` in the place of the one of the revision before, as `Store.swap`."""
        before = self.read()
        if (before.revision if before else 0) != record.revision - 1:
            raise Conflict(f"{self._records.folder} has been changed by somebody else meanwhile")
        if before is not None and record.epoch < before.epoch:
            raise ClusterError(
                f"{self._records.folder}: epoch {record.epoch} would go back behind {before.epoch}"
            )
        kept = replace(record, history=record.history[-HISTORY:])
        with explained("write", self._records.folder):
            self._records.swap(record.revision, json.dumps(asdict(kept)).encode())

    def submission(self, epoch: int) -> "SubmissionFolder":
        return SubmissionFolder(Path(self.path, "submissions", str(epoch)))

    def prune(self, keep: int = KEPT_SUBMISSIONS) -> None:
        """Delete the folders of all but the newest submissions."""
        for epoch in self._epochs()[:-keep]:
            shutil.rmtree(self.path / "submissions" / str(epoch), ignore_errors=True)

    def _epochs(self) -> list[int]:
        try:
            return numbers_in(self.path / "submissions")
        except OSError:
            return []


class _File:
    """The path of a file in a submission's folder. Made when it is first asked for, and kept: a
    tick looks at a thousand folders, and at few files of each."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __set_name__(self, _: type, field: str) -> None:
        self._field = field

    def __get__(self, folder: "SubmissionFolder", _: type) -> Path:
        path = vars(folder)[self._field] = folder.path / self._name
        return path


class SubmissionFolder:
    """The files of one submission. Everything in it may hold secrets: mode 0700."""

    properties = _File("spark.properties")
    token = _File("token")
    metrics_token = _File("metrics.token")
    """Reads the agent's metrics and does nothing else; for people and for Prometheus."""
    certificate = _File("agent.certificate")
    key = _File("agent.key")
    """The key of the certificate. Both files exist only if the agent speaks TLS."""
    environment = _File("environment.sh")
    """The environment variables of the stream, on YARN."""
    agent = _File("agent.json")
    driver = _File("driver.json")
    supervisor = _File("supervisor.json")
    exit = _File("exit.json")
    stopped = _File("stopped.json")
    """Left by a driver that was asked to stop."""
    raised = _File("raised.json")
    """Left by a driver whose program, or start, has died of something."""
    slots = _File("slots.json")
    """The task slots that its real-time queries lacked, if they did."""
    lineage = _File("lineage.json")
    """How its lineage was told to have ended."""
    fenced = _File("fenced.json")
    """Left by a driver that may not have its checkpoint."""
    took = _File("took.json")
    """Left by a driver before it marks its checkpoint as its own."""
    alive = _File("alive")
    """Locked by supervisor and driver while they live, and touched now and then."""
    log = _File("driver.log")
    application = _File("application.json")
    """The application, on YARN, once its id is known."""
    ended = _File("ended.json")
    """How the application ended, on YARN, which forgets that."""
    posted = _File("posted.json")
    """The note that a driver on another host is about to be submitted."""
    remote = _File("remote.json")
    """The id by which its cluster knows a driver on another host."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Make the folder. No other submission ever has it.

        Raises:
            ClusterError: the folder exists already, or can't be made; names it.
        """
        with explained("make", self.path):
            make_private(self.path.parent)
            try:
                self.path.mkdir(mode=0o700)
            except FileExistsError:
                raise ClusterError(
                    f"{self.path}: is there already, though nothing is remembered of it: was an "
                    "older copy of the record put back? When no driver of the stream runs any "
                    f"more, delete {self.path}"
                ) from None

    def read_token(self) -> str:
        """The agent's token.

        Raises:
            ClusterError: it can't be read; names the file.
        """
        try:
            with explained("read", self.token):
                return bytes_of(self.token).decode().strip()
        except FileNotFoundError:
            raise ClusterError(
                f"{self.token}: missing; without it the driver can only be stopped, not asked"
            ) from None

    def has_taken_its_checkpoint(self) -> bool:
        """Whether the driver's mark may be in its checkpoint.

        Raises:
            ClusterError: the mark can't be read.
        """
        with explained("read", self.took):
            # One that found another's there, after its own word, proves nothing of that one's end.
            return self.took.exists() and not self.fenced.exists()

    def died_of(self) -> str | None:
        """The error that ended the driver, from its report or else from the end of its log; None:
        neither has one."""
        try:
            cause = json.loads(self.raised.read_bytes()).get("raised")
        except (OSError, ValueError, AttributeError):
            cause = None
        return cause if isinstance(cause, str) and cause else raised(self.tail(LAST_LINES))

    def lacked(self) -> Slots | None:
        """The task slots that the driver's real-time queries lacked; None: none are reported."""
        try:
            return read_slots(self.slots.read_bytes())
        except (OSError, typed_json.Malformed):
            return None

    def lineage_end(self) -> LineageEnd | None:
        """How the driver's lineage was told to have ended; None: it tells none, or not that."""
        try:
            return read_lineage_end(self.lineage.read_bytes())
        except (OSError, typed_json.Malformed):
            return None

    def ending(self) -> Stopped | None:
        """The driver's report of its end; None: it made none, or none that can be read."""
        try:
            return read_stopped(self.stopped.read_bytes())
        except (OSError, typed_json.Malformed):
            return None

    def write_private(self, path: Path, text: str) -> None:
        """Write a file that nobody else may read, before anything secret is in it.

        Raises:
            ClusterError: it can't be written; names the file.
        """
        with explained("write", path):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)

    def tail(self, lines: int) -> str:
        """The last lines of the driver's log, also where it has just been rotated."""
        text = b""
        for path in (self.log, self.log.with_name("driver.log.1")):
            text = _last_bytes(path, 512 * max(lines, 1) + 65536) + text
            if text.count(b"\n") > lines:
                break
        return "\n".join(text.decode("utf-8", "replace").splitlines()[-lines:]) if lines > 0 else ""


def make_private(folder: Path) -> None:
    """Make `folder`, mode 0700. One that exists keeps its mode: it may not be ours to change.

    Raises:
        OSError: it can't be made.
        ClusterError: as `refuse_if_not_private`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_if_not_private(folder)


def refuse_if_not_private(folder: Path) -> None:
    """Refuse a folder that others could put something of theirs in, which a driver would then be
    started with.

    Raises:
        OSError: it can't be looked at.
        ClusterError: others can read or change it; says who, and what to do.
    """
    found, me = folder.stat(), os.geteuid()
    if found.st_uid not in (me, 0):  # root may do everything anyhow
        raise ClusterError(
            f"{folder}: belongs to {_user(found.st_uid)}, and this is {_user(me)}: what is kept "
            f"there must be nobody else's; `chown -R {me} {folder}`, or set state_dir to a folder "
            "of your own, or to one in it that is yet to be made"
        )
    if found.st_mode & 0o022:
        raise ClusterError(
            f"{folder}: users other than its owner, {_user(found.st_uid)}, may write to it (mode "
            f"{stat.S_IMODE(found.st_mode):04o}), and so have programs run as {_user(me)}; "
            f"`chmod go-w {folder}`, or set state_dir to a folder in it that is yet to be made"
        )


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def is_locked(path: Path) -> bool | None:
    """Whether somebody holds the lock of `path`; None if that can't be told.

    Raises:
        OSError: it can't be opened, though it is there.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(handle)  # and with it the lock
    return False


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in `path`; None if there is no such file.

    Raises:
        ClusterError: it is there and can't be read; names it and what to do about it.
    """
    text = _read(path)
    if text is None:
        return None
    try:
        content = json.loads(text)
    except ValueError as error:
        fault = f"{path}: is not valid JSON ({error}); {_repair(path, path.parent)}"
        raise ClusterError(fault) from None
    if not isinstance(content, dict):
        raise ClusterError(f"{path}: must hold a JSON object; {_repair(path, path.parent)}")
    return content


def _read(path: Path) -> bytes | None:
    try:
        with explained("read", path):
            return bytes_of(path)
    except FileNotFoundError:
        return None


def newer_or(repair: str) -> str:
    """What to do about a file of the store that can't be understood."""
    return f"if a newer release has written it, use that one; else {repair}"


def _repair(path: Path, folder: Path) -> str:
    return (
        f"restore the file from a copy, or, when you are certain that no driver of this stream "
        f"runs any more, delete the folder {folder}"
    )


@contextmanager
def explained(verb: str, path: Path) -> Iterator[None]:
    """Turn what the system refuses to do with `path` into a ClusterError that says so."""
    try:
        yield
    except FileNotFoundError:
        if verb == "read":
            raise
        raise ClusterError(f"{path}: can't {verb} it: its parent folder is gone") from None
    except OSError as error:
        raise ClusterError(f"{path}: can't {verb} it: {error.strerror or error}") from error


def _last_bytes(path: Path, limit: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            return file.read()
    except OSError:
        return b""
