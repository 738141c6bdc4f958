"""What is remembered of streams on this host: a folder of small files for each.

    <state_dir>/streams/<name>/record.json             epoch, what is wanted, history of starts
    <state_dir>/streams/<name>/submissions/<epoch>/    settings, token, log and fate of one driver

What must not change: files are replaced as a whole and readable by their owner only; an epoch never
goes back; a file that cannot be read is an error that names it, never taken for a stream that was
never started, for that would put a second driver on its checkpoint.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dagster_sparkscale import typed_json
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.supervisor import write_json
from dagster_sparkscale.clusters.store import Record

HISTORY = 50
KEPT_SUBMISSIONS = 5
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
        self.path = state_dir / "streams" / stream
        self._record = self.path / "record.json"

    def create(self) -> None:
        """Make the folder, readable by this user only.

        Raises:
            ClusterError: it can't be made; names the folder.
        """
        with _explained("make", self.path):
            for folder in (self.path.parent.parent, self.path.parent, self.path):
                make_private(folder)

    def read(self) -> Record | None:
        """The record, or None if the stream was never started.

        Raises:
            ClusterError: the record can't be read; names the file and what to do about it.
        """
        text = _read(self._record)
        if text is None:
            if self._epochs():
                raise ClusterError(
                    f"{self._record}: missing, though {self.path / 'submissions'} shows that "
                    f"{self.stream!r} has been started: put the file back, or, when no driver of "
                    f"{self.stream!r} runs any more, delete {self.path}"
                )
            return None
        try:
            return typed_json.read(_RECORD, text)
        except typed_json.Malformed as error:
            raise ClusterError(f"{self._record}: {error}; {_repair(self._record)}") from None

    def write(self, record: Record) -> None:
        """Replace the record.

        Raises:
            ClusterError: it can't be written, or its epoch is lower than the one it replaces.
        """
        before = self.read()
        if before is not None and record.epoch < before.epoch:
            raise ClusterError(
                f"{self._record}: epoch {record.epoch} would go back behind {before.epoch}"
            )
        with _explained("write", self._record):
            write_json(self._record, asdict(replace(record, history=record.history[-HISTORY:])))

    def new_record(self) -> Record:
        """The record to begin with, for a stream that was never started."""
        return Record.new(secrets.token_hex(8))

    def submission(self, epoch: int) -> "SubmissionFolder":
        return SubmissionFolder(self.path / "submissions" / str(epoch))

    def prune(self, keep: int = KEPT_SUBMISSIONS) -> None:
        """Delete the folders of all but the newest submissions."""
        for epoch in self._epochs()[:-keep]:
            shutil.rmtree(self.path / "submissions" / str(epoch), ignore_errors=True)

    def _epochs(self) -> list[int]:
        try:
            names = os.listdir(self.path / "submissions")
        except OSError:
            return []
        return sorted(int(name) for name in names if name.isdigit())


class SubmissionFolder:
    """The files of one submission. Everything in it may hold secrets: mode 0700."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.properties = path / "spark.properties"
        self.token = path / "token"
        self.agent = path / "agent.json"
        self.driver = path / "driver.json"
        self.supervisor = path / "supervisor.json"
        self.exit = path / "exit.json"
        self.gone = path / "gone"
        """Made by a person who knows that the driver's host is gone for good."""
        self.log = path / "driver.log"

    def create(self) -> None:
        """Make the folder, empty.

        Raises:
            ClusterError: it can't be made; names the folder.
        """
        with _explained("make", self.path):
            make_private(self.path.parent)
            # Left by a submitter that died before it had written the record.
            shutil.rmtree(self.path, ignore_errors=True)
            make_private(self.path)

    def read_token(self) -> str:
        """The agent's token.

        Raises:
            ClusterError: it can't be read; names the file.
        """
        try:
            with _explained("read", self.token):
                return self.token.read_text().strip()
        except FileNotFoundError:
            raise ClusterError(
                f"{self.token}: missing; without it the driver can only be stopped, not asked"
            ) from None

    def write_private(self, path: Path, text: str) -> None:
        """Write a file that nobody else may read, before anything secret is in it.

        Raises:
            ClusterError: it can't be written; names the file.
        """
        with _explained("write", path):
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
    """Make `folder`, mode 0700. One that exists keeps its mode: it may not be ours to change."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


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
        raise ClusterError(f"{path}: is not valid JSON ({error}); {_repair(path)}") from None
    if not isinstance(content, dict):
        raise ClusterError(f"{path}: must hold a JSON object; {_repair(path)}")
    return content


def _read(path: Path) -> bytes | None:
    try:
        with _explained("read", path):
            return path.read_bytes()
    except FileNotFoundError:
        return None


def _repair(path: Path) -> str:
    return (
        f"restore the file from a copy, or, when you are certain that no driver of this stream "
        f"runs any more, delete the folder {path.parent}"
    )


@contextmanager
def _explained(verb: str, path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        if verb == "read":
            raise
        raise ClusterError(f"{path}: can't {verb} it: its parent folder is gone") from None
    except OSError as error:
        raise ClusterError(f"{path}: can't {verb} it: {error.strerror}") from error


def _last_bytes(path: Path, limit: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            return file.read()
    except OSError:
        return b""
