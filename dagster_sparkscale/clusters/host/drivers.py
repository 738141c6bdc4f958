"""One submission of a stream whose driver is a process of this host: launched, told of, ended."""

from collections.abc import Mapping
from dataclasses import replace

from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.fate import Observed
from dagster_sparkscale.clusters.host import places, process_fates, processes
from dagster_sparkscale.clusters.host.agent_files import write_credentials
from dagster_sparkscale.clusters.host.foreign_drivers import marks
from dagster_sparkscale.clusters.host.launch import Runtime, command, environment
from dagster_sparkscale.clusters.host.state_folder import FolderDriver
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.launch.spark_settings import properties
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.remedy import Remedy, WithRemedy


class HostedDriver(FolderDriver):
    """What is remembered of one submission, its files and its processes."""

    def make_way(self) -> None:
        """See to it that nothing of this submission, or of one before it, is left.

        Raises:
            AlreadyRunning: a driver of the stream is alive, or may be, remembered or not.
            ClusterError: a process that an ended driver left behind can't be killed.
        """
        name, record = self.folder.stream, self.record
        self.refuse_if_alive()
        # Where the newest was started here, whatever is older is known to have ended.
        known = record.epoch if self._is_here() else 0
        if unknown := processes.later_than(name, known, record.id):
            raise AlreadyRunning(
                f"process {unknown[0]} on this host is of a driver of {name!r} that is not the one "
                f"remembered in {self.folder.path} (epoch {record.epoch}): was an older copy put "
                "back while it ran? End that process first, or put the newer one back. Two drivers "
                "on one checkpoint lose data"
            )
        # A driver killed alone may leave its JVM behind, and that still writes the checkpoint.
        processes.clear_up_to(name, record.epoch, record.id)

    def launch(
        self, call: Invocation, start: EpochStart, settings: Mapping[str, str], runtime: Runtime
    ) -> None:
        """Start the driver. The record has it already.

        Raises:
            ClusterError: the driver could not be started; nothing of it runs.
        """
        files = self.files
        files.create()
        write_credentials(self.stream, self.record.epoch, files, runtime.agent_tls)
        files.write_private(files.properties, properties(settings))
        env = environment(call.stream, files, self._mark, runtime)
        if self.record.checkpoint is not None:
            env.update(marks(self.record.checkpoint, self.folder.state_dir))
        processes.launch(files, command(call, start, files, runtime), env)
        self.folder.prune()

    def look(self) -> Observed:
        """Read the driver's files and processes.

        Raises:
            ClusterError: a file of the submission can't be read; names it.
        """
        record, files = self.record, self.files
        fate = process_fates.fate_of(record, files, self.by_its_agent)
        if fate.how == "exit code" and (last := files.died_of()):
            fate = replace(fate, reason=f"{fate.reason}: {last}")
        where = f"process {fate.pid} on {record.host}" if fate.pid else f"host {record.host}"
        return process_fates.observed(fate, f"{where}, log {files.log}", files)

    def log(self, lines: int) -> str:
        return self.files.tail(lines)

    def log_place(self) -> str:
        return str(self.files.log)

    def kill(self) -> None:
        if not self._is_here():
            raise ClusterError(self._cannot_stop_it())
        processes.terminate(self.files, self._mark, lambda: self.describe().state.alive)

    def clear(self) -> None:
        processes.clear(self._mark)

    def _is_here(self) -> bool:
        """Whether this process can see and signal the driver's processes."""
        return places.same_namespace(self.record.submitter)

    @property
    def _mark(self) -> str:
        """The mark of this submission's processes alone: after a lost lease a later submission is
        another operation's."""
        return processes.marker(self.folder.stream, self.record.epoch, self.record.id)

    def _cannot_stop_it(self) -> str:
        driver = self.describe()
        return WithRemedy(
            f"{driver.stream!r} was started on another host or in another container "
            f"({driver.where}) and its agent could not be made to stop it. ",
            self.out_of_reach(),
        )

    def out_of_reach(self) -> str:
        return WithRemedy(
            "Its agent can't be reached from here, so it may still be running: stop it on its own "
            "host, or, when you are certain that it is gone for good, ",
            Remedy.DECLARE_GONE,
            f" for epoch {self.record.epoch}",
        )
