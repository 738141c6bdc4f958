"""One submission of a stream in cluster mode: submitted to YARN, found by its tags, killed."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.fate import Observed
from dagster_sparkscale.clusters.host import places, processes
from dagster_sparkscale.clusters.host.agent_files import write_credentials
from dagster_sparkscale.clusters.host.folders import (
    StreamFolder,
    explained,
    read_json,
)
from dagster_sparkscale.clusters.host.state_folder import FolderDriver
from dagster_sparkscale.clusters.launch.driver_zip import NAME, parcel
from dagster_sparkscale.clusters.launch.spark_settings import properties
from dagster_sparkscale.clusters.pauses import wait_until
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.yarn import applications
from dagster_sparkscale.clusters.yarn import resource_manager as managers
from dagster_sparkscale.clusters.yarn.application_fate import Sight, Yarn, note
from dagster_sparkscale.clusters.yarn.applications import Application
from dagster_sparkscale.clusters.yarn.resource_manager import Unanswered
from dagster_sparkscale.clusters.yarn.submission import MAIN, Files
from dagster_sparkscale.driver import __file__ as driver_package
from dagster_sparkscale.remedy import WithRemedy

_log = logging.getLogger(__name__)

KILL_SECONDS = 60.0
"""How long a killed application may take to end."""


class YarnDriver(FolderDriver):
    """The newest submission of a stream."""

    EVERY: ClassVar[float] = 4.0
    TOLD_BY: ClassVar[str] = "the ResourceManager and its node"

    def __init__(self, folder: StreamFolder, record: Record, yarn: Yarn) -> None:
        super().__init__(folder, record)
        self._yarn = yarn
        self._sight = Sight(folder.stream, record, self.files, yarn)

    def launch(
        self,
        settings: Callable[[Files], Mapping[str, str]],
        environment: str,
        arguments: Sequence[str],
        program: Path,
    ) -> None:
        """Submit the driver, which is remembered already.

        Args:
            settings: makes Spark's, of the files that are shipped.
            environment: what sets the variables of the stream.

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
        files.write_private(files.environment, environment)
        shipping = Files(
            files.token, files.certificate, files.key, files.environment, shipped, program
        )
        files.write_private(files.properties, properties(settings(shipping)))
        try:
            self._refuse_if_overtaken()
            fault = self._yarn.client.submit(files.properties, main, arguments, self._sight.mark)
            if fault is not None:
                raise ClusterError(self._refused(fault))
            # From here on it is never taken for one that was not submitted.
            note(files.application, {"where": "on YARN"})
            # It may have been held up for any time.
            self._refuse_if_overtaken()
        except BaseException as error:
            self._undo(error)
            raise
        self.folder.prune()

    def look(self) -> Observed:
        return self._sight.look()

    def log(self, lines: int) -> str:
        return self._sight.log(lines)

    def kill(self) -> None:
        self._kill_submission()
        there = self._yarn.manager.tagged(self._sight.tag)
        for app in there:
            self._kill(app)
        if not there and not self.files.application.exists():
            self._refuse_if_submitted_elsewhere()
            note(self.files.exit, {"at": time.time(), "reason": "killed before YARN had it"})
        wait_until(lambda: not self.describe().state.alive, KILL_SECONDS, self.EVERY)
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
            self._remove(self._yarn.staging(app))
        end = read_json(self.files.ended)
        if end is not None and end.get("staging"):
            self._remove(str(end["staging"]))
            note(self.files.ended, {**end, "staging": None})

    def took(self) -> bool:
        return self._sight.took()

    def _refuse_if_overtaken(self) -> None:
        if self.is_overtaken():
            raise AlreadyRunning(
                f"driver {self.record.epoch} of {self.stream!r} was about to be submitted when "
                "another start took its place: look at the stream before you try again"
            )

        if self.files.exit.exists():
            raise AlreadyRunning(
                f"driver {self.record.epoch} of {self.stream!r} was ended while it was about to be "
                "submitted"
            )

    def _refuse_if_submitted_elsewhere(self) -> None:
        """Refuse to call a submission ended that may go on where it can't be killed from here."""
        if not places.same_namespace(self.record.submitter):
            elsewhere = (
                f"driver {self.record.epoch} of {self.stream!r} is being submitted from host "
                f"{self.record.host!r}, or was: YARN does not have it yet, and it can be ended "
                "there only. "
            )
            raise ClusterError(WithRemedy(elsewhere, self.out_of_reach()))

    def _refused(self, fault: str) -> str:
        """Why YARN has not taken the application."""
        with contextlib.suppress(Unanswered):
            app = applications.newest(self._yarn.manager.tagged(self._sight.tag), self._sight.tag)
            if app is not None and app.diagnostics:
                fault = applications.in_one_line(app.diagnostics)
        return f"YARN did not take the driver of {self.stream!r}: {fault}"

    def _undo(self, error: BaseException) -> None:
        """End what a launch that failed may have begun, and note that it has."""
        self._kill_submission()
        there = self._yarn.manager.tagged(self._sight.tag)
        for app in there:
            self._kill(app)
            self._await_end(app)
        ran = any(app.container is not None for app in there)
        reason = str(error) or repr(error)
        note(self.files.exit, {"at": time.time(), "reason": reason, "ran": ran})

    def _kill_submission(self) -> None:
        """End a `spark-submit` of this driver's that still runs here."""
        processes.clear(self._sight.mark)

    def _kill(self, app: Application) -> None:
        if not app.final:
            self._yarn.manager.kill(app.id)

    def _await_end(self, app: Application) -> None:
        """Wait until nothing is left of an application that was killed.

        Raises:
            ClusterError: the application has not ended in time.
        """
        tag = applications.of_record(self.record.id)

        def ended() -> bool:
            now = {each.id: each for each in self._yarn.manager.tagged(tag)}.get(app.id)
            final = now is not None and now.final
            place = now and now.node_url and now.container and (now.node_url, now.container)
            return final and (not place or managers.runs(*place, self._yarn.manager.web) is False)

        if not wait_until(ended, KILL_SECONDS, self.EVERY):
            raise ClusterError(f"{app.id} has not ended within {KILL_SECONDS:g} s of being killed")

    def _is_later(self, app: Application) -> bool:
        head = f"{applications.of_record(self.record.id)}-"
        epochs = [tag.removeprefix(head) for tag in app.tags if tag.startswith(head)]
        return any(epoch.isdigit() and int(epoch) > self.record.epoch for epoch in epochs)

    def _remove(self, staging: str) -> None:
        """Remove a staging folder, which a killed Spark leaves behind. A failure is logged only."""
        if (fault := self._yarn.client.remove(staging)) is not None:
            _log.warning("%s can't be removed: %s", staging, fault)
