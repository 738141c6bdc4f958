"""What clusters have in common whose drivers run on this host (client deploy mode).

The driver is a detached process beside Dagster and outlives it; where its executors run is up to
the cluster. What is remembered lies in the state folder: every process of the deployment must be
given the same one, for it is what keeps two drivers off one checkpoint.
"""

import logging
import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from dagster_sparkscale.clusters.base import Driver, is_text
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.host.conditions import (
    check_spark_of,
    conditions_here,
    in_the_clear,
    is_loopback,
    program_here,
)
from dagster_sparkscale.clusters.host.drivers import HostedDriver
from dagster_sparkscale.clusters.host.folders import is_name
from dagster_sparkscale.clusters.host.foreign_drivers import Stranger, strangers_on
from dagster_sparkscale.clusters.host.launch import Runtime
from dagster_sparkscale.clusters.host.processes import marker
from dagster_sparkscale.clusters.host.state_folder import StateFolderCluster
from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.launch import class_data_options
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.launch.spark_settings import settings
from dagster_sparkscale.clusters.records import starts
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare import checkpoints
from dagster_sparkscale.declare.stream import Stream

_log = logging.getLogger(__name__)


class HostedCluster(StateFolderCluster):
    """Runs the drivers of streams on the host that Dagster runs on."""

    driver_host: str | None = Field(
        default=None,
        description="Address at which the workers reach this host. Default: 127.0.0.1 for a "
        "master on the loopback, else what Spark finds.",
    )
    executor_python: str | None = Field(
        default=None,
        description="Python of the executors. Default: this one for a master on the loopback, "
        "else PYSPARK_PYTHON or python3 as found on the workers.",
    )
    java_home: str | None = Field(default=None, description="Java of the drivers. Default: found.")
    class_data_archive: str | None = Field(
        default=None,
        description="An archive of class data, for executors and drivers to start faster: a path "
        "on the workers and on this host. `python -m dagster_sparkscale.clusters.class_data` "
        "makes one.",
    )
    agent_bind: str = Field(
        default="127.0.0.1", description="Address that the agents listen at; loopback by default."
    )
    agent_tls: bool | None = Field(
        default=None,
        description="Whether the agents speak TLS, each with a certificate of its own that nobody "
        "has to be told of. Default: wherever agent_bind is not on the loopback.",
    )
    pass_environment: list[str] = Field(
        default_factory=list,
        description="Variables of Dagster's environment that programs need: names, or patterns "
        'such as "KAFKA_*". Those that the system, Python, Java, Spark and clouds go by are handed '
        "on without being named; all others are not.",
    )

    @field_validator("pass_environment", mode="before")
    @classmethod
    def _names_of_variables(cls, value: Any) -> Any:
        for name in value if isinstance(value, list | tuple) else ():
            if isinstance(name, str) and (not name or "=" in name):
                raise ValueError(
                    f"pass_environment: {name.partition('=')[0]!r}: must be the name of a "
                    'variable, or a pattern such as "KAFKA_*"; what has a value of its own belongs '
                    "into the env of a stream"
                )
        return value

    @field_validator("class_data_archive", mode="before")
    @classmethod
    def _archive_is_absolute(cls, value: Any) -> Any:
        path = is_text(value) and value
        if path and not Path(value).is_absolute():
            raise ValueError(
                f"class_data_archive = {value!r}: must be an absolute path, for workers have "
                "other working folders"
            )
        if path and not class_data_options.can_be_named(Path(value)):
            raise ValueError(
                f"class_data_archive = {value!r}: must be a path of letters, digits, blanks and "
                "./+,=@%~_- only: options of a JVM can't have others"
            )
        return value

    @abstractmethod
    def _master(self) -> str:
        """The URL of the master.

        Raises:
            ClusterError: the field holds no master's URL, or no master has been started yet.
        """

    @abstractmethod
    def _on_loopback(self) -> bool:
        """Whether nothing of the cluster is to be seen from other hosts."""

    def _access(self) -> dict[str, str]:
        """Spark settings without which the cluster does not take an application; may be secret."""
        return {}

    def driver_of(self, stream: str, record: Record) -> HostedDriver:
        return HostedDriver(self.store().folder(stream), record)

    def doubt(self, stream: Stream) -> str | None:
        try:
            program_here(stream)
        except ClusterError as error:
            return str(error).removeprefix(f"{stream.name}: ")
        return None

    def program_of(self, stream: Stream) -> Path:
        check_spark_of(stream)
        return program_here(stream)

    def launching(self, call: Invocation) -> Callable[[EpochStart], None]:
        master, access, runtime = self._master(), self._access(), self._runtime()
        host = self.driver_host or ("127.0.0.1" if runtime.loopback else None)

        def launch(start: EpochStart) -> None:
            shared = self._class_data(runtime.java, runtime.spark)
            made = settings(
                *(call.stream, start.record.epoch, master, self.spark_conf),
                *(host, shared, call.settings),
            )
            driver = self.driver_of(call.stream.name, start.record)
            driver.launch(call, start, made | access, runtime)

        return launch

    def check(self, stream: Stream) -> None:
        self.program_of(stream)
        self._master()
        self._runtime()

    def conditions(self, streams: Sequence[Stream]) -> Iterator[Condition]:
        yield from conditions_here(self.state_path(), self.java_home, streams)
        yield from in_the_clear(self.agent_bind, self._agent_tls())

    def logs(self, driver: Driver, lines: int = 50) -> str:
        return self.files_of(driver).tail(lines)

    def took(self, stream: str, epoch: int) -> bool:
        return self.store().folder(stream).submission(epoch).has_taken_its_checkpoint()

    def place(self, location: str, settings: Mapping[str, str]) -> str:
        return place_of(location, settings)

    def make_way(self, lease: Lease, checkpoint: str | None) -> None:
        super().make_way(lease, checkpoint)
        record = lease.record
        if checkpoint is None:
            return
        try:
            found = strangers_on(checkpoint, record.id)
        except OSError as error:
            raise ClusterError(f"it can't be told what runs on this host: {error}") from error
        for stranger in found:
            other = self._owner(stranger)
            if other is not None and (who := self.who_runs(stranger.stream)):
                fault = starts.taken(checkpoint, lease.stream, stranger.stream, who, other)
                raise AlreadyRunning(fault)
            raise AlreadyRunning(
                f"the checkpoint {checkpoint} of {lease.stream!r} is worked on by "
                f"{stranger.in_words(self.state_path())}. Two drivers on one checkpoint lose data"
            )

    def _owner(self, stranger: Stranger) -> Record | None:
        """The record of the stream in this store whose newest driver it is of."""
        stream = stranger.stream
        known = self.store().read(stream) if is_name(stream) else None
        its = known and stranger.submission == marker(stream, known.epoch, known.id)
        return known if its else None

    def _runtime(self) -> Runtime:
        python = sys.executable  # has this package, so a driver started with it has it too
        loopback = self._on_loopback()
        return Runtime(
            java=java_home(self.java_home),
            spark=spark_home(),
            python=python,
            executor_python=self.executor_python or (python if loopback else None),
            loopback=loopback,
            agent_bind=self.agent_bind,
            agent_tls=self._agent_tls(),
            pass_environment=self.pass_environment,
        )

    def _agent_tls(self) -> bool:
        return not is_loopback(self.agent_bind) if self.agent_tls is None else self.agent_tls

    def _class_data(self, java: Path, spark: Path) -> dict[str, list[str]]:
        """JVM options by role, for an archive of class data."""
        if not self.class_data_archive:
            return {}
        archive = Path(self.class_data_archive)
        roles = {"executor": class_data_options.options(archive)}
        try:
            here = archive.is_file()
        except OSError:
            here = False
        if here and not class_data_options.decided_by(os.environ):
            roles["driver"] = roles["executor"]
        if not here:
            _log.warning(
                "class_data_archive: there is no file %s on this host; drivers start without it, "
                "and executors wherever a worker lacks it",
                archive,
            )
        return roles


def place_of(location: str, settings: Mapping[str, str]) -> str:
    """A checkpoint by its one name, symbolic links followed."""
    uri = checkpoints.normalized(location, settings)
    path = uri.removeprefix("file://")
    return uri if path == uri else f"file://{os.path.realpath(path)}"
