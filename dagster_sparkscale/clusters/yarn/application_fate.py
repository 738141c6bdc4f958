"""The fate of a driver in cluster mode, from YARN, its agent and the notes about it.

What must not change: a driver has ended only when its application's state is final and its
NodeManager has its container no more. An application that the ResourceManager does not know (any
more), or one given up with its node, may run: it is unknown until somebody declares it gone.
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.fate import Fate, How, Observed, declared_gone
from dagster_sparkscale.clusters.host import places, processes
from dagster_sparkscale.clusters.host.agent_files import agent_of, text_in
from dagster_sparkscale.clusters.host.folders import SubmissionFolder, explained, read_json
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.yarn import aggregated, applications
from dagster_sparkscale.clusters.yarn import resource_manager as managers
from dagster_sparkscale.clusters.yarn.applications import Application
from dagster_sparkscale.clusters.yarn.launch import Client
from dagster_sparkscale.clusters.yarn.resource_manager import ResourceManager, Unanswered
from dagster_sparkscale.driver.begin.announce import announce
from dagster_sparkscale.driver.begin.fence import FENCED
from dagster_sparkscale.observe.end_report import EndReport, raised, read_end_report

GATHER_SECONDS = 30.0
"""Seconds after its end for which a driver's log may be neither on its node nor gathered."""
_REPORT = "report_at_end"
"""The key of the node's last report at the time when the driver's end was first noticed."""
_KEPT = 262_144
"""Bytes of an ended driver's log that are kept."""
_LOGS = ("stdout", "stderr")
"""The logs of a driver: in cluster mode all output of the program goes to `stdout`; `stderr` is the
JVM's."""


@dataclass(frozen=True)
class Yarn:
    """The YARN cluster of an application, and how this host uses it."""

    manager: ResourceManager
    client: Client
    staging_dir: str | None

    def staging(self, app: Application) -> str:
        """The folder that Spark keeps an application's files in."""
        base = f"{self.staging_dir.rstrip('/')}/{app.user}/" if self.staging_dir else ""
        return f"{base}.sparkStaging/{app.id}"


@dataclass(frozen=True)
class Sight:
    """One submission: finds out its fate from YARN and from the notes about it.

    One class, though long: each answer of YARN is weighed against what the notes have said before.

    Raises:
        ClusterError: from each method: a note can't be read or written.
    """

    stream: str
    record: Record
    files: SubmissionFolder
    yarn: Yarn

    @property
    def tag(self) -> str:
        return applications.of_epoch(self.record.id, self.record.epoch)

    @property
    def mark(self) -> str:
        """The mark of the process that submits the application."""
        return processes.marker(self.stream, self.record.epoch, self.record.id)

    def look(self) -> Observed:
        """Find out how the driver is now."""
        record, files = self.record, self.files
        if (note := read_json(files.ended)) is not None:
            return _from_note(note)
        if (note := read_json(files.exit)) is not None:
            at = note.get("at")
            reason = str(note.get("reason", "could not be launched"))
            return Observed(Fate(DriverState.FAILED, ended_at=at, reason=reason))
        if (gone := declared_gone(record)) is not None:
            return Observed(gone)
        try:
            app = applications.newest(self.yarn.manager.tagged(self.tag), self.tag)
            if app is None:
                return self._not_found()
            return self._ended(app) if app.final else self._alive(app)
        except Unanswered as error:
            return self._unknown(str(error))

    def log(self, lines: int) -> str:
        """The last lines of the driver's log."""
        files, glancing = self.files, self.yarn.manager.glancing
        if files.log.exists():
            return files.tail(lines)
        if glancing and files.ended.exists():
            return ""  # there was none when its end was noted
        try:
            app = applications.newest(self.yarn.manager.tagged(self.tag), self.tag)
        except Unanswered:
            return ""
        size = 512 * max(lines, 1) + 65536
        text = self._log_of(app, size) if app else None
        # That costs a JVM: not at each tick, for each stream that has failed.
        if app is not None and app.final and text is None and not glancing:
            text = aggregated.log(app, _LOGS, size, self.yarn.client.environment())
        return "\n".join((text or "").splitlines()[-lines:]) if lines > 0 else ""

    def took(self) -> bool:
        """Whether the driver may have left its mark in its checkpoint, and did not report that it
        lost it."""
        if (launch := read_json(self.files.exit)) is not None:
            return bool(launch.get("ran"))
        end = read_json(self.files.ended)
        if end is None:  # its log is on its way, or nobody has looked since
            now = self.look()
            gone = self.record.gone == self.record.epoch
            return (now.app_id is not None or gone) and now.fenced is None
        if (report := _report_in(end)) is not None:
            return report.took and report.fenced is None
        return not _is_fenced(end)

    def _not_found(self) -> Observed:
        """Describe an application that the ResourceManager does not know."""
        known = read_json(self.files.application)
        if known is not None:
            return self._unknown(
                f"the ResourceManager does not know {known.get('id') or 'it'} any more: it was "
                "started anew and remembers nothing, has forgotten it among many, or does not show "
                f"it to {self.yarn.manager.web.user!r}"
            )
        by = self.record.submitter
        if not places.same_namespace(by):
            return self._unknown(f"it was submitted from host {self.record.host}, or is about to")
        if not places.has_ended(by) or processes.marked(self.mark):
            return Observed(Fate(DriverState.STARTING), where="not submitted to YARN yet")
        reason = "was never submitted: the process submitting it died"
        return Observed(Fate(DriverState.FAILED, reason=reason))

    def _unknown(self, reason: str) -> Observed:
        """Ask the agent, where YARN says nothing of the application."""
        known = read_json(self.files.application) or {}
        where = str(known.get("where", "on YARN"))
        state = DriverState.UNKNOWN
        with contextlib.suppress(ClusterError):
            agent_of(self.stream, self.record.epoch, self.files).status(timeout=2.0, window=0.0)
            state = DriverState.RUNNING
        return self._announced(Fate(state, reason=reason), where, known)

    def _alive(self, app: Application) -> Observed:
        if app.state != "RUNNING":
            return self._announced(Fate(DriverState.STARTING), applications.waiting_for(app))
        if app.host is None:
            return self._unknown(self._hidden(app))
        where = f"{app.id} on {app.host}"
        files = self.files
        known = {"id": app.id, "where": where, "pages": app.pages}
        if not (read_json(files.application) or {}).get("id"):
            note(files.application, known)
        if not files.agent.exists():
            try:
                announced = self.yarn.manager.environment(app).get("spark.sparkscale.agent.url")
            except Unanswered as error:  # its pages come up after it
                where = f"{where}: where its agent is can't be told yet, {error}"
                return self._announced(Fate(DriverState.STARTING), where, known)
            if announced is None:
                return self._announced(Fate(DriverState.STARTING), where, known)
            # By the name that YARN knows its node by: the driver may know it by another.
            parts = urlsplit(announced)
            if not parts.port:  # its name may be what looks like a secret
                where = (
                    f"{where}: where its agent is can't be told, its pages show {announced!r}: "
                    "does spark.redaction.regex match spark.sparkscale.agent.url, or the driver's "
                    "host?"
                )
                return self._announced(Fate(DriverState.STARTING), where, known)
            url = f"{parts.scheme}://{_bracketed(app.host)}:{parts.port}"
            note(files.agent, {"url": url, "app_id": app.id})
        return self._announced(Fate(DriverState.RUNNING), where, known)

    def _hidden(self, app: Application) -> str:
        """Explain why YARN shows an application without its times and its node."""
        return (
            f"the ResourceManager does not let {self.yarn.manager.web.user!r} view {app.id}, which "
            f"belongs to {app.user!r}: it tells neither where its driver is nor whether "
            "it has ended"
        )

    def _announced(
        self, fate: Fate, where: str, known: Mapping[str, Any] | None = None
    ) -> Observed:
        """Describe a driver that is not known to have ended.

        Args:
            known: the note about its application.
        """
        known = known or {}
        url = text_in(read_json(self.files.agent) or {}, "url")
        return Observed(fate, where, url, text_in(known, "id"), text_in(known, "pages"))

    def _ended(self, app: Application) -> Observed:
        """Describe an application whose state is final, once its container has ended too."""
        where = f"{app.id} on {app.host}" if app.host else app.id
        if app.lost:
            return self._unknown(f"its node was lost: {applications.in_one_line(app.diagnostics)}")
        if app.container is None and app.finished_at is None:
            return self._unknown(self._hidden(app))
        if app.node_url and app.container:
            there = managers.runs(app.node_url, app.container, self.yarn.manager.web)
            if there:
                return self._announced(
                    Fate(DriverState.RUNNING), f"{where}, ending", {"id": app.id}
                )
            if there is None and not self._node_knows(app):
                return self._unknown(f"it has ended, but its node does not say so ({where})")
        text, final = self._last_of(app)
        report = read_end_report(text or "")
        died_of = (report.raised if report else None) or raised(text or "")
        end = applications.ended(app, died_of)
        found: dict[str, Any] = {
            "reason": end.reason,
            "how": end.how,
            "code": app.status if end.how == "exit code" else None,
            "at": app.finished_at,
            "app_id": app.id,
            "where": where,
            # One that could say that it was done has removed its files itself.
            "staging": None if app.state == "FINISHED" else self.yarn.staging(app),
            "words": report.as_json() if report else None,
        }
        if final:
            if text is not None:
                self.files.write_private(self.files.log, text)
            note(self.files.ended, found)
        return _from_note(found)

    def _node_knows(self, app: Application) -> bool:
        """Whether an application's node must have heard of its end, though it can't be asked.

        It has where the ResourceManager got a report from it, in whose answer it says what is to
        end, since the end was known. That one has come shows in its being another: by whose clock
        it was written does not matter, nor after how long a node is given up.
        """
        report = None if app.node is None else self.yarn.manager.last_report(app.node)
        if report is None:
            return False
        known = read_json(self.files.application) or {}
        if (first := known.get(_REPORT)) is None:
            note(self.files.application, {**known, _REPORT: report})
        return first is not None and first != report

    def _log_of(self, app: Application, size: int) -> str | None:
        """The end of its driver's log, as its node has it; None: it has none (yet, or any more)."""
        if app.node_url is None or app.container is None:
            return None
        found = None
        for name in _LOGS:
            text = managers.log(app.node_url, app.container, name, size, self.yarn.manager.web)
            if text and text.strip():
                return text
            found = found if text is None else text
        return found

    def _last_of(self, app: Application) -> tuple[str | None, bool]:
        """The end of the log of one that has ended, from its node or from where it was gathered,
        and whether there will be no other."""
        text = self._log_of(app, _KEPT)
        if text is not None or app.container is None:
            return text, True
        try:
            text = aggregated.seldom(app, _LOGS, _KEPT, self.yarn.client.environment())
        except aggregated.Later:
            return None, False
        on_its_way = time.time() - (app.finished_at or 0.0) < GATHER_SECONDS
        return text, text is not None or not on_its_way


def note(path: Path, content: Mapping[str, Any]) -> None:
    """Write a note, whole or not at all, for this user only.

    Raises:
        ClusterError: the note can't be written.
    """
    with explained("write", path):
        announce(path, content)


def _from_note(note: Mapping[str, Any]) -> Observed:
    """What was found of a driver that has ended."""
    report = _report_in(note)
    at, app_id = note.get("at"), note.get("app_id")
    reason = str(note.get("reason") or "ended")
    # Its log may be on its way, or lost; it must not be started again all the same.
    lost = reason if _is_fenced(note) else None
    return Observed(
        Fate(DriverState.FAILED, ended_at=at, reason=reason, how=_how(note)),
        where=str(note.get("where", "")),
        app_id=app_id,
        stopped=report.stopped if report else None,
        fenced=report.fenced if report else lost,
        slots=report.slots if report else None,
        lineage=report.lineage if report else None,
    )


def _is_fenced(note: Mapping[str, Any]) -> bool:
    """Whether the driver ended with the exit code of one that may not have its checkpoint."""
    if "code" in note:
        return bool(note["code"] == FENCED)
    # A note of an older release says so in words alone.
    return str(note.get("reason", "")).startswith(f"exit code {FENCED}")


def _how(note: Mapping[str, Any]) -> How | None:
    """The way the driver ended; None: the reason says who ended it."""
    if "how" in note:
        how: How | None = note["how"]
        return how
    of_old = ("exit code", "killed by signal", "its program returned")
    return "exit code" if str(note.get("reason", "")).startswith(of_old) else None


def _report_in(note: Mapping[str, Any]) -> EndReport | None:
    text = note.get("words")
    return read_end_report(text) if isinstance(text, str) else None


def _bracketed(host: str | None) -> str:
    return f"[{host}]" if host and ":" in host else str(host)
