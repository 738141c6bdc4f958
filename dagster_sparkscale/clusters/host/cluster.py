"""What clusters have in common whose drivers run on this host (client deploy mode).

The driver is a detached process beside Dagster and outlives it; where its executors run is up to
the cluster. What is remembered lies in the state folder: every process of the deployment must be
given the same one, for it is what keeps two drivers off one checkpoint.
"""

import logging
import os
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, field_validator

from dagster_sparkscale.clusters import class_data, starts
from dagster_sparkscale.clusters.agents import RemoteAgent
from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.host.conditions import conditions_here, program_of
from dagster_sparkscale.clusters.host.drivers import HostedDriver, agent_of
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.host.folders import is_name
from dagster_sparkscale.clusters.host.launch import Runtime
from dagster_sparkscale.clusters.host.processes import marker
from dagster_sparkscale.clusters.host.strangers import Stranger, strangers_on
from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.leases import LEASE_SECONDS, Lease
from dagster_sparkscale.clusters.spark_settings import settings
from dagster_sparkscale.clusters.starts import Start
from dagster_sparkscale.clusters.store import Record
from dagster_sparkscale.declare import checkpoints, drift
from dagster_sparkscale.declare.streams import Stream

ANNOUNCE_SECONDS = 30.0
"""How long `submit` waits for the driver's agent before it returns a driver still starting."""

_PATIENCE = LEASE_SECONDS + 5.0
"""Seconds for the lease of another stream: as long as one takes to expire whose holder is gone."""

# Settings that each stream makes for itself: one here would be overridden, or bound every stream
# without its declaration knowing.
_PER_STREAM = (
    "spark.app.name",
    "spark.cores.max",
    "spark.driver.memory",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.master",
)

_log = logging.getLogger(__name__)


class HostedCluster(ClusterManager):
    """Runs the drivers of streams on the host that Dagster runs on."""

    state_dir: str = Field(
        default=".sparkscale",
        description="Folder of what is remembered of the streams. The same one for every process "
        "of the deployment; a relative one is below $DAGSTER_HOME, or, where that is not set, "
        "below the folder that Dagster is started in.",
    )
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
    spark_conf: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Spark settings of all streams. Dagster shows them: secrets as dg.EnvVar.",
    )
    class_data_archive: str | None = Field(
        default=None,
        description="An archive of class data, for executors and drivers to start faster: a path "
        "on the workers and on this host. `python -m dagster_sparkscale.clusters.class_data` "
        "makes one.",
    )
    agent_bind: str = Field(
        default="127.0.0.1", description="Address that the agents listen at; loopback by default."
    )
    pass_environment: list[str] = Field(
        default_factory=list,
        description="Variables of Dagster's environment that programs need: names, or patterns "
        'such as "KAFKA_*". Those that the system, Python, Java, Spark and clouds go by are handed '
        "on without being named; all others are not.",
    )

    @field_validator("state_dir", mode="before")
    @classmethod
    def _folder_has_a_name(cls, value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, dg.EnvVar) and not value.strip():
            raise ValueError('must be the name of a folder, such as ".sparkscale"')
        return value

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

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _settings_are_common(cls, value: Any) -> Any:
        for key in value if isinstance(value, Mapping) else ():
            if not str(key).startswith("spark."):
                raise ValueError(f'{key}: a Spark setting begins with "spark."')
            if key in _PER_STREAM:
                raise ValueError(f"drop {key}: each stream declares its own")
        return value

    @field_validator("class_data_archive", mode="before")
    @classmethod
    def _archive_is_absolute(cls, value: Any) -> Any:
        given = isinstance(value, str) and not isinstance(value, dg.EnvVar)
        if given and value and not Path(value).is_absolute():
            raise ValueError(
                f"class_data_archive = {value!r}: must be an absolute path, for workers have "
                "other working folders"
            )
        if given and value and not class_data.can_be_named(Path(value)):
            raise ValueError(
                f"class_data_archive = {value!r}: must be a path of letters, digits, blanks and "
                "./+,=@%~_- only: options of a JVM can't have others"
            )
        return value

    @abstractmethod
    def _master(self) -> str:
        """The URL of the master.

        Raises:
            ClusterError: it is none, or there is none yet.
        """

    @abstractmethod
    def _on_loopback(self) -> bool:
        """Whether nothing of the cluster is to be seen from other hosts."""

    def _access(self) -> dict[str, str]:
        """Spark settings without which the cluster does not take an application; may be secret."""
        return {}

    def store(self) -> FolderStore:
        return FolderStore(self._state_path())

    def submit(self, stream: Stream, lease: Lease, cause: str = "manual") -> Driver:
        lease.check(stream.name)
        starts.refuse_if_held(stream.name, lease.record)
        program = program_of(stream)
        arguments = stream.program_arguments()
        checkpoint = checkpoint_of(stream, self.spark_conf)
        self._make_way(lease, checkpoint)
        # A start that is refused leaves no cluster behind that it has started.
        self.prepare()
        master, access, runtime = self._master(), self._access(), self._runtime()
        start = starts.begin(
            self.store(),
            lease,
            starts.Drivers(
                self._who_runs,
                self._took,
                lambda name: self.lease(name, lease.holder, wait=_PATIENCE),
            ),
            cause=cause,
            checkpoint=checkpoint,
            declared=drift.declared(stream),
            executors=drift.executors_at_start(
                stream, lease.record.executors, lease.record.declared
            ),
        )
        driver = HostedDriver(self.store().folder(stream.name), start.record)
        host = self.driver_host or ("127.0.0.1" if runtime.loopback else None)
        shared = self._class_data(runtime.java, runtime.spark)
        made = settings(stream, start.record.epoch, master, self.spark_conf, host, shared) | access
        driver.launch(stream, made, program, arguments, runtime, fence_options(start))
        return driver.await_agent(ANNOUNCE_SECONDS)

    def check(self, stream: Stream) -> None:
        program_of(stream)
        self._master()
        self._runtime()

    def conditions(self, streams: Sequence[Stream]) -> Sequence[Condition]:
        return tuple(conditions_here(self._state_path(), self.java_home, streams))

    def find(self, stream: str) -> Driver | None:
        newest = self._newest(stream)
        return newest.describe() if newest else None

    def agent(self, driver: Driver) -> RemoteAgent:
        return agent_of(driver, self.store().folder(driver.stream).submission(driver.epoch))

    def end(self, driver: Driver, lease: Lease, graceful: bool, timeout: float) -> Driver:
        folder = self.store().folder(driver.stream)
        return HostedDriver(folder, lease.record).end(lease, graceful, timeout)

    def logs(self, driver: Driver, lines: int = 50) -> str:
        return self.store().folder(driver.stream).submission(driver.epoch).tail(lines)

    def _newest(self, stream: str) -> HostedDriver | None:
        folder = self.store().folder(stream)
        record = folder.read()
        return HostedDriver(folder, record) if record and record.epoch else None

    def _make_way(self, lease: Lease, checkpoint: str | None) -> None:
        """See to it that no process here works for the stream, or on its checkpoint.

        Raises:
            AlreadyRunning: one does, or may.
        """
        record = lease.record
        HostedDriver(self.store().folder(lease.stream), record).make_way()
        if checkpoint is None:
            return
        try:
            found = strangers_on(checkpoint, record.id)
        except OSError as error:
            raise ClusterError(f"it can't be told what runs on this host: {error}") from error
        for stranger in found:
            other = self._owner(stranger)
            if other is not None and (who := self._who_runs(stranger.stream)):
                fault = starts.taken(checkpoint, lease.stream, stranger.stream, who, other)
                raise AlreadyRunning(fault)
            raise AlreadyRunning(
                f"the checkpoint {checkpoint} of {lease.stream!r} is worked on by "
                f"{stranger.in_words(self._state_path())}. Two drivers on one checkpoint lose data"
            )

    def _owner(self, stranger: Stranger) -> Record | None:
        """The record of the stream in this store whose newest driver it is of."""
        stream = stranger.stream
        known = self.store().read(stream) if is_name(stream) else None
        its = known and stranger.submission == marker(stream, known.epoch, known.id)
        return known if its else None

    def _who_runs(self, stream: str) -> str | None:
        driver = self.find(stream)
        if driver is None or not driver.state.alive:
            return None
        return f"its driver {driver.epoch} is {driver.state.value}, {driver.where}"

    def _took(self, stream: str, epoch: int) -> bool:
        return self.store().folder(stream).submission(epoch).has_taken_its_checkpoint()

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
            pass_environment=self.pass_environment,
        )

    def _class_data(self, java: Path, spark: Path) -> dict[str, list[str]]:
        """JVM options by role, for an archive of class data."""
        if not self.class_data_archive:
            return {}
        archive = Path(self.class_data_archive)
        roles = {"executor": class_data.options(archive)}
        try:
            here = archive.is_file()
        except OSError:
            here = False
        if here and not class_data.decided_by(os.environ):
            roles["driver"] = roles["executor"]
        if not here:
            _log.warning(
                "class_data_archive: there is no file %s on this host; drivers start without it, "
                "and executors wherever a worker lacks it",
                archive,
            )
        return roles

    def _state_path(self) -> Path:
        # Not the working directory if there is anything better: seen from another one, a stream
        # that runs would look as if it had never been started.
        home = Path(os.environ.get("DAGSTER_HOME") or Path.cwd()).expanduser()
        return (home / Path(self.state_dir).expanduser()).absolute()


def checkpoint_of(stream: Stream, common: Mapping[str, str]) -> str | None:
    """The checkpoint of `stream` as the fence knows it, symbolic links followed; None if it
    declares none."""
    if stream.checkpoint_location is None:
        return None
    return place_of(stream.checkpoint_location, {**common, **stream.spark_conf})


def place_of(location: str, settings: Mapping[str, str]) -> str:
    """A checkpoint by its one name, symbolic links followed."""
    uri = checkpoints.normalized(location, settings)
    path = uri.removeprefix("file://")
    return uri if path == uri else f"file://{os.path.realpath(path)}"


def fence_options(start: Start) -> list[str]:
    """What the driver is told of the checkpoint that it may take."""
    if start.record.checkpoint is None:
        return []
    options = ["--record", start.record.id]
    if start.succeeds is not None:
        id, epoch = start.succeeds
        options += ["--succeeds", f"{id}:{epoch}"]
    return options
