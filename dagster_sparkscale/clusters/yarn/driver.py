"""One submission of a stream in cluster mode: an application of YARN's, found by its tags.

What must not change: a driver has ended only when its application's state is final and its
NodeManager has its container no more. An application that the ResourceManager does not know (any
more), or one given up with its node, may run: it is unknown until somebody declares it gone.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from dagster_sparkscale.clusters.agents import RemoteAgent
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.fate import Fate, Seen
from dagster_sparkscale.clusters.host import places, processes
from dagster_sparkscale.clusters.host.agent_files import agent_of, text_in, write_credentials
from dagster_sparkscale.clusters.host.folders import (
    StreamFolder,
    SubmissionFolder,
    explained,
    read_json,
)
from dagster_sparkscale.clusters.parcel import NAME, parcel
from dagster_sparkscale.clusters.spark_settings import properties
from dagster_sparkscale.clusters.store import Record
from dagster_sparkscale.clusters.submitted import SubmittedDriver
from dagster_sparkscale.clusters.yarn import aggregated, applications
from dagster_sparkscale.clusters.yarn import resource_manager as managers
from dagster_sparkscale.clusters.yarn.applications import Application
from dagster_sparkscale.clusters.yarn.launch import Client
from dagster_sparkscale.clusters.yarn.resource_manager import ResourceManager, Unanswered
from dagster_sparkscale.clusters.yarn.submission import MAIN, Files
from dagster_sparkscale.driver import __file__ as driver_package
from dagster_sparkscale.driver.announce import announce
from dagster_sparkscale.driver.fence import FENCED
from dagster_sparkscale.observe.last_words import LastWords, raised, read_last_words

KILL_SECONDS = 60.0
"""How long a killed application may take to end."""
NODE_SECONDS = 700.0
"""A node that is heard of so long after an application's end has been told of that: the
ResourceManager gives one up after 600 s of silence, by default."""
GATHER_SECONDS = 30.0
"""How long after its end a driver's log may be on its way, neither on its node nor gathered."""
_KEPT = 262_144
"""Bytes of the log that are kept of a driver that has ended."""
_LOGS = ("stdout", "stderr")
"""In cluster mode the program's both go to `stdout`; `stderr` is the JVM's."""


@dataclass(frozen=True)
class Yarn:
    """The cluster that an application runs on, as it is used from here."""

    manager: ResourceManager
    client: Client
    staging_dir: str | None

    def staging(self, app: Application) -> str:
        """The folder that Spark keeps an application's files in."""
        base = f"{self.staging_dir.rstrip('/')}/{app.user}/" if self.staging_dir else ""
        return f"{base}.sparkStaging/{app.id}"


class YarnDriver(SubmittedDriver):
    """The newest submission of a stream."""

    EVERY: ClassVar[float] = 0.5

    def __init__(self, folder: StreamFolder, record: Record, yarn: Yarn) -> None:
        super().__init__(folder.stream, record)
        self.folder = folder
        self._yarn = yarn
        self._tag = applications.of_epoch(record.id, record.epoch)

    @property
    def files(self) -> SubmissionFolder:
        return self.folder.submission(self.record.epoch)

    def launch(
        self,
        settings: Callable[[Files], Mapping[str, str]],
        arguments: Sequence[str],
        program: Path,
    ) -> None:
        """Submit the driver, which is remembered already.

        Args:
            settings: makes Spark's, of the files that are shipped.

        Raises:
            ClusterError: YARN did not take it; nothing of it runs.
        """
        files = self.files
        files.create()
        write_credentials(self.stream, self.record.epoch, files, tls=True)
        main, shipped = files.path / MAIN, files.path / NAME
        with explained("write", files.path):
            main.write_bytes(Path(driver_package).with_name("__main__.py").read_bytes())
            shipped.write_bytes(parcel())
        shipping = Files(files.token, files.certificate, files.key, shipped, program)
        files.write_private(files.properties, properties(settings(shipping)))
        try:
            self._refuse_if_overtaken()
            fault = self._yarn.client.submit(files.properties, main, arguments, self._mark)
            if fault is not None:
                raise ClusterError(self._refused(fault))
            # It may have been held up for any time.
            self._refuse_if_overtaken()
        except BaseException as error:
            self._undo(error)
            raise
        self.folder.prune()

    def look(self) -> Seen:
        record, files = self.record, self.files
        if (note := read_json(files.ended)) is not None:
            return _seen(note)
        if (note := read_json(files.exit)) is not None:
            at = note.get("at")
            reason = str(note.get("reason", "could not be launched"))
            return Seen(Fate(DriverState.FAILED, ended_at=at, reason=reason))
        if record.gone == record.epoch:
            reason = f"declared gone by {record.gone_by}"
            return Seen(Fate(DriverState.FAILED, reason=reason))
        try:
            app = applications.newest(self._yarn.manager.tagged(self._tag), self._tag)
            if app is None:
                return self._not_found()
            return self._ended(app) if app.final else self._alive(app)
        except Unanswered as error:
            return self._unknown(str(error))

    def agent(self) -> RemoteAgent:
        return agent_of(self.stream, self.record.epoch, self.files)

    def log(self, lines: int) -> str:
        files = self.files
        if files.log.exists():
            return files.tail(lines)
        try:
            app = applications.newest(self._yarn.manager.tagged(self._tag), self._tag)
        except Unanswered:
            return ""
        text = self._log_of(app, 512 * max(lines, 1) + 65536) if app else None
        return "\n".join((text or "").splitlines()[-lines:]) if lines > 0 else ""

    def kill(self) -> None:
        self._kill_submission()
        for app in self._yarn.manager.tagged(self._tag):
            self._kill(app)
        deadline = time.monotonic() + KILL_SECONDS
        while self.describe().state.alive and time.monotonic() < deadline:
            time.sleep(self.EVERY)
        self.clear()

    def clear(self) -> None:
        for app in self._yarn.manager.tagged(applications.of_record(self.record.id)):
            if app.final:
                continue
            if self._is_later(app):
                raise AlreadyRunning(
                    f"{app.id} is of a driver of {self.stream!r} that is not the one remembered "
                    f"in {self.folder.path} (epoch {self.record.epoch}): was an older copy put "
                    "back while it ran? End that application first, or put the newer one back. "
                    "Two drivers on one checkpoint lose data"
                )
            self._kill(app)
            self._await_end(app)
        self._sweep()

    def out_of_reach(self) -> str:
        return (
            "It can't be told whether it still runs: look again when the ResourceManager and its "
            "node answer, or, when you are certain that it is gone for good, run the job "
            f"declare_gone for epoch {self.record.epoch}"
        )

    def took(self) -> bool:
        """Whether its mark may be in its checkpoint, and it has not told that it was lost."""
        note = read_json(self.files.ended) or {}
        if (words := _words(note)) is not None:
            return words.took and words.fenced is None
        return not str(note.get("reason", "")).startswith(f"exit code {FENCED}")

    # What is found.

    def _not_found(self) -> Seen:
        """Of an application that the ResourceManager does not know."""
        known = read_json(self.files.application)
        if known is not None:
            return self._unknown(
                f"the ResourceManager does not know {known.get('id')} any more: it was started "
                "anew and remembers nothing, or has forgotten it among many"
            )
        by = self.record.submitter
        if not places.same_namespace(by):
            return self._unknown(f"it was submitted from host {self.record.host}, or is about to")
        if not places.has_ended(by) or processes.marked(self._mark):
            return Seen(Fate(DriverState.STARTING), where="not submitted to YARN yet")
        reason = "was never submitted: the process submitting it died"
        return Seen(Fate(DriverState.FAILED, reason=reason))

    def _unknown(self, reason: str) -> Seen:
        """Of one of which YARN tells nothing: its agent may."""
        known = read_json(self.files.application) or {}
        where = str(known.get("where", "on YARN"))
        state = DriverState.UNKNOWN
        with contextlib.suppress(ClusterError):
            self.agent().status(timeout=2.0, window=0.0)
            state = DriverState.RUNNING
        return self._announced(
            Fate(state, reason=reason), where, str(known.get("id") or "") or None
        )

    def _alive(self, app: Application) -> Seen:
        if app.state != "RUNNING":
            return self._announced(Fate(DriverState.STARTING), applications.waiting_for(app), None)
        where = f"{app.id} on {app.host}"
        files = self.files
        if not files.application.exists():
            self._note(files.application, {"id": app.id, "where": where})
        if not files.agent.exists():
            try:
                told = self._yarn.manager.environment(app.id).get("spark.sparkscale.agent.url")
            except Unanswered:  # its pages come up after it
                told = None
            if told is None:
                return self._announced(Fate(DriverState.STARTING), where, app.id)
            # By the name that YARN knows its node by: the driver may know it by another.
            parts = urlsplit(told)
            url = f"{parts.scheme}://{_bracketed(app.host)}:{parts.port}"
            self._note(files.agent, {"url": url, "app_id": app.id})
        return self._announced(Fate(DriverState.RUNNING), where, app.id)

    def _announced(self, fate: Fate, where: str, app_id: str | None) -> Seen:
        url = text_in(read_json(self.files.agent) or {}, "url")
        ui = f"{self._yarn.manager.urls[0].rstrip('/')}/proxy/{app_id}/" if app_id else None
        return Seen(fate, where, url, app_id, ui)

    def _ended(self, app: Application) -> Seen:
        """Of an application whose state is final: whether that is so of its containers."""
        where = f"{app.id} on {app.host}" if app.host else app.id
        if app.lost:
            return self._unknown(f"its node was lost: {applications.in_one_line(app.diagnostics)}")
        if app.node and app.container:
            there = managers.runs(app.node, app.container, self._yarn.manager.user)
            if there:
                return self._announced(Fate(DriverState.RUNNING), f"{where}, ending", app.id)
            if there is None and not self._was_told_of(app):
                return self._unknown(f"it has ended, but its node does not say so ({where})")
        text = self._log_of(app, _KEPT)
        words = read_last_words(text or "")
        died_of = (words.raised if words else None) or raised(text or "")
        note: dict[str, Any] = {
            "reason": applications.ended(app, died_of),
            "at": app.finished_at,
            "app_id": app.id,
            "where": where,
            "staging": self._yarn.staging(app),
            "words": words.as_json() if words else None,
        }
        on_its_way = time.time() - (app.finished_at or 0.0) < GATHER_SECONDS
        if app.container is None or text is not None or not on_its_way:
            if text is not None:
                self.files.write_private(self.files.log, text)
            self._note(self.files.ended, note)
        return _seen(note)

    def _was_told_of(self, app: Application) -> bool:
        """Whether an application's node must have heard of its end, though it can't be asked."""
        past = app.finished_at is not None and time.time() - app.finished_at > NODE_SECONDS
        return past and app.node is not None and self._yarn.manager.node_runs(app.node)

    def _log_of(self, app: Application, size: int) -> str | None:
        """The end of its driver's log, from its node or from where it was gathered; None: there is
        none (yet)."""
        if app.node is None or app.container is None:
            return None
        found = None
        for name in _LOGS:
            text = managers.log(app.node, app.container, name, size, self._yarn.manager.user)
            if text and text.strip():
                return text
            found = found if text is None else text
        if found is None and app.final:
            return aggregated.log(app, _LOGS, size, self._yarn.client.environment())
        return found

    # What is done.

    @property
    def _mark(self) -> str:
        """Of the process that submits it."""
        return processes.marker(self.stream, self.record.epoch, self.record.id)

    def _refuse_if_overtaken(self) -> None:
        newest = self.folder.read()
        if newest is None or (newest.id, newest.epoch) != (self.record.id, self.record.epoch):
            raise AlreadyRunning(
                f"driver {self.record.epoch} of {self.stream!r} was about to be submitted when "
                "another start took its place: look at the stream before you try again"
            )

    def _refused(self, fault: str) -> str:
        """Why YARN has not taken the application."""
        with contextlib.suppress(Unanswered):
            app = applications.newest(self._yarn.manager.tagged(self._tag), self._tag)
            if app is not None and app.diagnostics:
                fault = applications.in_one_line(app.diagnostics)
        return f"YARN did not take the driver of {self.stream!r}: {fault}"

    def _undo(self, error: BaseException) -> None:
        """End what a launch that failed may have begun, and note that it has."""
        self._kill_submission()
        for app in self._yarn.manager.tagged(self._tag):
            self._kill(app)
            self._await_end(app)
        self._note(self.files.exit, {"at": time.time(), "reason": str(error) or repr(error)})

    def _kill_submission(self) -> None:
        """End a `spark-submit` of this driver's that still runs here."""
        processes.clear(self._mark)

    def _kill(self, app: Application) -> None:
        if not app.final:
            self._yarn.manager.kill(app.id)

    def _await_end(self, app: Application) -> None:
        """Wait until nothing is left of an application that was killed.

        Raises:
            ClusterError: something is.
        """
        deadline = time.monotonic() + KILL_SECONDS
        while time.monotonic() < deadline:
            tag = applications.of_record(self.record.id)
            now = {each.id: each for each in self._yarn.manager.tagged(tag)}.get(app.id)
            final = now is not None and now.final
            user = self._yarn.manager.user
            place = now and now.node and now.container and (now.node, now.container)
            if final and (not place or managers.runs(*place, user) is False):
                return
            time.sleep(self.EVERY)
        raise ClusterError(f"{app.id} has not ended within {KILL_SECONDS:g} s of being killed")

    def _is_later(self, app: Application) -> bool:
        head = f"{applications.of_record(self.record.id)}-"
        epochs = [tag.removeprefix(head) for tag in app.tags if tag.startswith(head)]
        return any(epoch.isdigit() and int(epoch) > self.record.epoch for epoch in epochs)

    def _sweep(self) -> None:
        """Remove the staging folder, which Spark leaves behind when it is killed."""
        note = read_json(self.files.ended)
        if note is None or not note.get("staging"):
            return
        fault = self._yarn.client.remove(str(note["staging"]))
        if fault is not None:
            raise ClusterError(f"{note['staging']} can't be removed: {fault}")
        self._note(self.files.ended, {**note, "staging": None})

    def _note(self, path: Path, content: Mapping[str, Any]) -> None:
        with explained("write", path):
            announce(path, content)


def _seen(note: Mapping[str, Any]) -> Seen:
    """What was found of a driver that has ended."""
    words = _words(note)
    at, app_id = note.get("at"), note.get("app_id")
    reason = str(note.get("reason") or "ended")
    return Seen(
        Fate(DriverState.FAILED, ended_at=at, reason=reason),
        where=str(note.get("where", "")),
        app_id=app_id,
        stopped=words.stopped if words else None,
        fenced=words.fenced if words else None,
    )


def _words(note: Mapping[str, Any]) -> LastWords | None:
    text = note.get("words")
    return read_last_words(text) if isinstance(text, str) else None


def _bracketed(host: str | None) -> str:
    return f"[{host}]" if host and ":" in host else str(host)
