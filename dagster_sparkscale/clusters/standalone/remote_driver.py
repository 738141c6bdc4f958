"""One submission of a stream whose driver is run by a worker of a Standalone cluster.

    posted.json   before the master is asked: which drivers it had
    remote.json   id of the driver, its worker and the worker's host
    agent.json    where its agent is, as the driver has announced it
    exit.json     how it has ended, and beside it, its last report and the end of its log

What must not change: a driver has ended where its worker says so (`master_page.ENDED`), or its
keeper (`driver.shipped_main`), or where it was never launched. A lost worker, a master that has
forgotten it, and one that does not answer prove nothing.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.fate import Fate, Observed, declared_gone
from dagster_sparkscale.clusters.host import process_fates
from dagster_sparkscale.clusters.host.folders import (
    StreamFolder,
    explained,
    read_json,
)
from dagster_sparkscale.clusters.host.state_folder import FolderDriver
from dagster_sparkscale.clusters.host.supervisor import write_json
from dagster_sparkscale.clusters.pauses import wait_until
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.standalone import master_page, rest
from dagster_sparkscale.clusters.standalone.master_page import ListedDriver
from dagster_sparkscale.clusters.standalone.worker_pages import Output
from dagster_sparkscale.driver import shipped
from dagster_sparkscale.driver.ending.end_report import PARTS
from dagster_sparkscale.remedy import WithRemedy

LAUNCH_SECONDS = 60.0
"""How long a start may take until its driver is known to the master."""
KILL_SECONDS = 30.0
"""A worker gives a JVM ten seconds to end, and kills it then."""
KEPT_LINES = 1000
"""Lines of an ended driver's log that are kept: its worker may be gone when somebody asks."""
_FIRST_REPORT = 2.0
"""Seconds to wait for the end report of a driver that has reported nothing so far: Python may not
even have begun."""
_REPORT_EVERY = 0.5
_NEXT_REPORT = 15.0
"""Seconds to wait where the driver has reported before, or its worker does not answer: the driver's
keeper reports as soon as its host lets it."""

Overview = Mapping[str, Any]


@dataclass(frozen=True)
class Masters:
    """The masters of a cluster, as they can be asked."""

    rest_urls: Sequence[str]
    overview: Callable[[], Overview | None]
    """Reads the page of the master in charge; None: no master answers."""
    has_ended: Callable[[Any], bool]
    """Whether the process that has submitted a driver has ended."""


class RemoteDriver(FolderDriver):
    """What is remembered of one submission, and what masters, workers and its agent tell."""

    EVERY: ClassVar[float] = 4.0
    TOLD_BY: ClassVar[str] = "the master and its worker"

    def __init__(self, folder: StreamFolder, record: Record, masters: Masters) -> None:
        super().__init__(folder, record)
        self.masters = masters

    @property
    def mark(self) -> str:
        """The text in the driver's command line that identifies it."""
        return f"{self.stream}/{self.record.epoch}/{self.record.id}"

    def launch(self, body: Mapping[str, Any]) -> None:
        """Submit the driver. The record has it already.

        Raises:
            ClusterError: the master refused it; nothing of it runs.
        """
        overview = self.masters.overview() or {}
        self._note("posted", {"known": sorted(master_page.drivers(overview))})
        try:
            id = rest.create(self.masters.rest_urls, body)
        except rest.Unanswered:
            return  # the master's list of drivers will tell
        except ClusterError as error:
            reason = f"was never launched: {error}"
            self._note("exit", {"at": time.time(), "told": True, "reason": reason})
            raise
        self._note("remote", {"id": id})

    # How it is.

    def look(self) -> Observed:
        if ended := process_fates.ended(self.files) or declared_gone(self.record):
            return self._observed(ended)
        overview = self.masters.overview()
        if overview is None:
            return self._observed(self._doubted("no master of the cluster answers"))
        id = self._id(overview)
        if id is None:
            return self._observed(self._not_known())
        return self._observed(self._fate(overview, id))

    def _fate(self, overview: Overview, id: str) -> Fate:
        known = master_page.drivers(overview).get(id, ListedDriver(id, "forgotten", None, True))
        self._note_worker(overview, known)
        if known.state == "SUBMITTED":
            return Fate(DriverState.STARTING, reason="waits for a worker with room for it")
        if known.state == "RUNNING":
            self._note_agent(overview)
            announced = read_json(self.files.agent) is not None
            return Fate(DriverState.RUNNING if announced else DriverState.STARTING)
        if known.state in master_page.ENDED:
            return self._ended(overview, _REASONS[known.state])
        if (self._output(overview).last_report() or {}).get(shipped.EXIT):
            return self._ended(overview, {})
        if known.state == "ERROR":
            try:
                error = rest.error_of(self.masters.rest_urls, id)
            except ClusterError as fault:
                return self._doubted(f"it can't be told whether its worker is lost: {fault}")
            if error is not None:
                return self._ended(overview, {"reason": f"its worker could not run it: {error}"})
            return self._doubted("its worker is lost")
        return self._doubted(f"to the master it is {known.state.lower()}")

    def _doubted(self, why: str) -> Fate:
        return self.by_its_agent(Fate(DriverState.UNKNOWN, reason=why))

    def _not_known(self) -> Fate:
        """The fate of a driver whose id nobody noted and that can't be recognized on the master's
        page."""
        died = self.masters.has_ended(self.record.submitter)
        if died and read_json(self.files.posted) is None:
            reason = "was never launched: the process submitting it died"
            return Fate(DriverState.FAILED, reason=reason)
        if not died and time.time() - self.record.submitted_at < LAUNCH_SECONDS:
            return Fate(DriverState.STARTING)
        # No list of drivers proves that the request is not on its way yet: the master names them.
        asked = datetime.fromtimestamp(self.record.submitted_at, UTC)
        reason = (
            "it can't be told whether the master has taken it: it has not if its page lists no "
            f"driver submitted at {asked:%Y-%m-%d %H:%M:%S} UTC or after"
        )
        return Fate(DriverState.UNKNOWN, reason=reason)

    def _observed(self, fate: Fate) -> Observed:
        remote = read_json(self.files.remote) or {}
        where = str(remote.get("id") or "not known to the master yet")
        if remote.get("host"):
            where += f" on {remote['host']}"
        if fate.reason and fate.state.alive:
            where += f", {fate.reason}"
        return process_fates.observed(fate, where, self.files)

    # What is found out is noted, for masters and workers forget.

    def _id(self, overview: Overview) -> str | None:
        """The id of the driver. Where its submitter died or had no answer, nobody noted the id, and
        the driver's mark identifies it."""
        remote = read_json(self.files.remote)
        if remote is not None:
            return str(remote["id"])
        posted = read_json(self.files.posted)
        if posted is None:
            return None
        for each in master_page.drivers(overview).values():
            if not each.ours or each.id in posted["known"]:
                continue
            if Output(each.id, master_page.web_uis(overview, each.worker, None)).is_marked(
                self.mark
            ):
                self._note("remote", {"id": each.id})
                return each.id
        return None

    def _note_worker(self, overview: Overview, driver: ListedDriver) -> None:
        remote = read_json(self.files.remote) or {"id": driver.id}
        host = master_page.host_of(overview, driver.worker)
        if host is not None and remote.get("worker") != driver.worker:
            self._note("remote", {"id": driver.id, "worker": driver.worker, "host": host})

    def _note_agent(self, overview: Overview) -> None:
        """Note the agent's address, until the application's id is known too."""
        if (read_json(self.files.agent) or {}).get("app_id"):
            return
        if (note := self._output(overview).agent()) is not None:
            self._note("agent", note)

    def _ended(self, overview: Overview, otherwise: Mapping[str, Any]) -> Fate:
        """Note how the driver ended.

        Args:
            otherwise: the note to write where the driver left no report.
        """
        begun = time.monotonic()
        output = self._output(overview)
        while not ((report := output.last_report()) or {}).get(shipped.EXIT):
            waited = time.monotonic() - begun
            patience = _FIRST_REPORT if report == {} else _NEXT_REPORT
            if waited > patience or not output.web_uis:
                break
            time.sleep(_REPORT_EVERY)
        report = report or {}
        log = output.log(KEPT_LINES)
        self.files.write_private(self.files.log, log + "\n" if log else "")
        for part in PARTS:
            if isinstance(left := report.get(f"{part}.json"), dict):
                self._note(part, left)
        said = report.get(shipped.EXIT)
        note = dict(said) if isinstance(said, dict) else dict(otherwise)
        note = {"at": time.time(), "told": bool(said), **note}
        if note.get("code") and (last := self.files.died_of()):
            note["reason"] = f"exit code {note['code']}: {last}"
        self._note("exit", note)
        ended = process_fates.ended(self.files)
        assert ended is not None
        return ended

    def _note(self, name: str, content: Mapping[str, Any]) -> None:
        path = getattr(self.files, name)
        with explained("write", path):
            write_json(path, content)

    # What can be done with it.

    def log(self, lines: int) -> str:
        if self.files.log.exists():
            return self.files.tail(lines)
        overview = self.masters.overview()
        return self._output(overview).log(lines) if overview else ""

    def log_place(self) -> str:
        remote = read_json(self.files.remote) or {}
        return f"the log of {remote.get('id')} on its worker"

    def kill(self) -> None:
        overview = self.masters.overview()
        id = self._id(overview) if overview else None
        if id is None:
            raise ClusterError(
                WithRemedy(f"{self.stream!r} can't be killed. ", self.out_of_reach())
            )
        try:
            rest.kill(self.masters.rest_urls, id)
        except ClusterError as error:
            if self.describe().state.alive:  # and has not just ended by itself
                raise ClusterError(WithRemedy(f"{error}. ", self.out_of_reach())) from None
        wait_until(lambda: not self.describe().state.alive, KILL_SECONDS, self.EVERY)

    def clear(self) -> None:
        """Do nothing: the driver's keeper has cleared up."""

    def _output(self, overview: Overview) -> Output:
        remote = read_json(self.files.remote) or {}
        urls = master_page.web_uis(overview, remote.get("worker"), remote.get("host"))
        return Output(str(remote.get("id")), urls)


_REASONS: Mapping[str, Mapping[str, Any]] = {
    "FINISHED": {"code": 0},
    "FAILED": {"reason": "it failed and has not said why; its log may"},
    "KILLED": {"reason": "killed by its worker"},
}
