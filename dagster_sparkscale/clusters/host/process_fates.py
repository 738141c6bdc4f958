"""What has become of a driver of this host, as its files and processes tell it.

What must not change: a driver is taken for ended only when nothing of it can be running any more;
what can't be told is `unknown`, never ended.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.fate import RETURNED, End, Fate, Observed, declared_gone
from dagster_sparkscale.clusters.host import folders, places
from dagster_sparkscale.clusters.host.agent_files import text_in
from dagster_sparkscale.clusters.host.folders import SubmissionFolder, read_json
from dagster_sparkscale.clusters.host.processes import lives, marked, marker
from dagster_sparkscale.clusters.host.supervisor import birth
from dagster_sparkscale.clusters.records.store import Record

QUIET_SECONDS = 60.0
"""A supervisor that has not touched its file for so long does not run under this kernel."""

_NO_TRACE = (
    "ended without a trace (killed together with its supervisor, or the machine was restarted)"
)


def observed(fate: Fate, where: str, folder: SubmissionFolder) -> Observed:
    """A driver of that fate, with what its files tell of it.

    Raises:
        ClusterError: a file of the submission can't be read; names it.
    """
    note, ended = read_json(folder.agent) or {}, not fate.state.alive
    fenced = read_json(folder.fenced) if ended else None
    return Observed(
        fate,
        where,
        text_in(note, "url"),
        text_in(note, "app_id"),
        text_in(note, "ui_url"),
        folder.ending() if ended else None,
        None if fenced is None else str(fenced.get("reason", "")),
        folder.lacked() if ended else None,
        folder.lineage_end() if ended else None,
    )


def fate_of(record: Record, folder: SubmissionFolder, by_its_agent: Callable[[Fate], Fate]) -> Fate:
    """The fate of the newest submission. What can't be told is UNKNOWN, never an end.

    Args:
        by_its_agent: the last resort, where nothing can be seen of the driver from here.

    Raises:
        ClusterError: a file of the submission can't be read; names it.
    """
    noted = ended(folder)
    if noted:
        return noted
    try:
        fate = declared_gone(record) or _by_this_host(record, folder)
        if not fate.state.alive:
            fate = replace(fate, heard_of_at=_touched_at(folder))
    except OSError as error:
        fate = Fate(DriverState.UNKNOWN, reason=f"it can't be told from here: {error}")
    if fate.state is not DriverState.UNKNOWN:
        # It may have left word between the two looks.
        return fate if fate.state.alive else ended(folder) or fate
    return by_its_agent(fate)


def _by_this_host(record: Record, folder: SubmissionFolder) -> Fate:
    """The fate, as far as this host knows it, of a submission that has noted no end."""
    started_by = record.submitter
    if places.same_kernel(started_by):
        if places.same_namespace(started_by):
            return _by_process_ids(record, folder)
        locked = folders.is_locked(folder.alive)
        if locked:
            return Fate(_announced(folder), _pid_of(folder))
        touched = _touched_at(folder)
        # A driver's JVM may outlive it by a moment, and can't be seen from this container.
        if locked is False and touched is not None and time.time() - touched > QUIET_SECONDS:
            return Fate(DriverState.FAILED, _pid_of(folder), reason=_NO_TRACE, how="no trace")
        return Fate(DriverState.UNKNOWN, reason="it was started in another container")
    if places.was_before_this_boot(started_by):
        return _before_this_boot(record, folder)
    return Fate(DriverState.UNKNOWN, reason=f"it was started on host {record.host}")


def _before_this_boot(record: Record, folder: SubmissionFolder) -> Fate:
    """The fate of a driver that was started before this machine's last restart. It may also run on
    a clone of this machine, where its supervisor still touches its file."""
    up_since = places.up_since()
    heard_of = max(record.submitted_at, _touched_at(folder) or 0.0)
    if up_since is None or time.time() - up_since < QUIET_SECONDS:
        return Fate(DriverState.UNKNOWN, reason="this machine was started a moment ago")
    # Or the clock was ahead before the restart, and was set right since.
    if heard_of >= up_since and not _is_silent(folder):
        return Fate(
            DriverState.UNKNOWN,
            reason="by the clock it was heard of after this machine was started",
        )
    return Fate(DriverState.FAILED, reason="the machine was restarted")


def _is_silent(folder: SubmissionFolder) -> bool:
    """Whether it is certain that no supervisor touches the file any more, by the clock of the file
    system: clocks of two machines differ.

    Raises:
        OSError: the lock or the clock of the file system can't be read.
    """
    touched = _touched_at(folder)
    if touched is None or folders.is_locked(folder.alive) is not False:
        return False
    with tempfile.TemporaryFile(dir=folder.path) as made_now:
        return os.fstat(made_now.fileno()).st_mtime - touched > QUIET_SECONDS


def _touched_at(folder: SubmissionFolder) -> float | None:
    try:
        return folder.alive.stat().st_mtime
    except FileNotFoundError:
        return None


def _announced(folder: SubmissionFolder) -> DriverState:
    return DriverState.RUNNING if folder.agent.exists() else DriverState.STARTING


def _pid_of(folder: SubmissionFolder) -> int | None:
    driver = read_json(folder.driver)
    return None if driver is None else _pid(driver, "pid", folder.driver)


def _by_process_ids(record: Record, folder: SubmissionFolder) -> Fate:
    """The fate by process ids, where those in the notes still mean the same processes."""
    driver = read_json(folder.driver)
    watcher = read_json(folder.supervisor)
    if driver is not None:
        pid = _pid(driver, "pid", folder.driver)
        # A supervisor that outlives its driver is still clearing away what the driver left.
        if _is_there(driver, record) or _is_there(driver, record, "supervisor_"):
            return Fate(_announced(folder), pid)
        return Fate(DriverState.FAILED, pid, reason=_NO_TRACE, how="no trace")
    if watcher is not None:
        # A full disk may have kept it from noting whom it has started.
        if lives(watcher) or _anything_runs(record):
            return Fate(_announced(folder))
        if folder.driver.exists():
            return _by_process_ids(record, folder)
        reason = f"its supervisor ended before it had started the driver{_complaints(folder)}"
        return Fate(DriverState.FAILED, reason=reason)
    by = record.submitter
    submitter_lives = birth(by.pid) == by.birth is not None
    if submitter_lives or _anything_runs(record):
        return Fate(DriverState.STARTING)
    return Fate(DriverState.FAILED, reason="was never launched: the process submitting it died")


def _anything_runs(record: Record) -> bool:
    """Whether a process here carries the mark of the newest submission."""
    return bool(marked(marker("", record.epoch, record.id)))


def _is_there(note: Mapping[str, Any], record: Record, which: str = "") -> bool:
    """Whether the process runs that the driver's `note` names. Its mark identifies a process whose
    birth could not be read when the note was written."""
    if note.get(f"{which}birth", "") is not None:
        return lives(note, f"{which}pid", f"{which}birth")
    mark = marker("", record.epoch, record.id)
    return any(process.pid == note.get(f"{which}pid") for process in marked(mark))


def ended(folder: SubmissionFolder) -> Fate | None:
    """How the driver ended, by its supervisor's note; None: there is no note.

    Raises:
        ClusterError: the note can't be read.
    """
    note = read_json(folder.exit)
    if note is None:
        return None
    code, number, at = note.get("code"), note.get("signal"), note.get("at")
    if number is not None:
        end = End(f"killed by signal {number}", "signal")
    elif code == 0:
        end = RETURNED
    elif code is None and note.get("reason"):
        end = End(str(note["reason"]))
    else:
        end = End(f"exit code {code}", "exit code")
    reason = str(note.get("reason") or end.reason)
    ended_at = float(at) if isinstance(at, int | float) else None
    driver = read_json(folder.driver) or {}
    return Fate(DriverState.FAILED, driver.get("pid"), ended_at, reason, end.how)


def _pid(note: Mapping[str, Any], name: str, path: Path) -> int:
    pid = note.get(name)
    if not isinstance(pid, int) or pid <= 0:
        raise ClusterError(f"{path}: {name} = {pid!r}: must be a process id")
    return pid


def _complaints(folder: SubmissionFolder) -> str:
    try:
        text = (folder.path / "supervisor.err").read_text(errors="replace").strip()
    except OSError:
        return ""
    return f": {text.splitlines()[-1]}" if text else ""
