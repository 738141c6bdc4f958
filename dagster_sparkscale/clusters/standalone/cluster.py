"""Streams on a Spark Standalone cluster, their drivers on this host (client deploy mode).

The driver runs as a detached process beside Dagster and outlives it; its executors run on the
cluster's workers. What is remembered lies in the state folder: every process of the deployment
must be given the same one, for it is what keeps two drivers off one checkpoint.
"""

import logging
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, field_validator

from dagster_sparkscale.clusters import class_data
from dagster_sparkscale.clusters.agents import shared_client
from dagster_sparkscale.clusters.base import (
    AlreadyRunning,
    Capacity,
    ClusterError,
    ClusterManager,
    Driver,
    Lease,
    Submission,
)
from dagster_sparkscale.clusters.host import drivers, leases, processes
from dagster_sparkscale.clusters.host.folders import StreamFolder
from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.spark_settings import properties, settings
from dagster_sparkscale.clusters.standalone import masters
from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.observe.status import Status

ANNOUNCE_SECONDS = 30.0
"""How long `submit` waits for the driver's agent before it returns a driver still starting."""

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


class StandaloneCluster(ClusterManager):
    """Runs streams on a Standalone cluster, with their drivers on the host that Dagster runs on.

    All settings may be `dg.EnvVar`s.
    """

    master: str = Field(
        description="URL of the master, spark://host:7077; several with commas between them."
    )
    web_urls: list[str] = Field(
        default_factory=list,
        description="Web UIs of the masters, http://host:8080: needed to tell the free cores.",
    )
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

    @field_validator("master", mode="before")
    @classmethod
    def _master_is_url(cls, value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, dg.EnvVar) and value:
            masters.hosts(value)
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

    def lease(self, stream: str, holder: str, wait: float = 0.0) -> AbstractContextManager[Lease]:
        folder = self._folder(stream)
        folder.create()
        return leases.hold(folder.path, stream, holder, wait)

    def submit(self, stream: Stream, lease: Lease, cause: str = "manual") -> Driver:
        folder = self._folder(stream.name)
        leases.check(folder.path, stream.name, lease)
        program = Path(stream.program).expanduser().absolute()
        if not program.is_file():
            raise ClusterError(
                f"{stream.name}: program = {stream.program!r}: there is no file {program}"
            )
        arguments = stream.program_arguments()
        java, spark = java_home(self.java_home), spark_home()
        master, loopback = self._master(), masters.is_loopback(self._master())
        record = folder.read()
        if record is None:
            record = folder.new_record()
            folder.write(record)
        elif record.epoch:
            driver = drivers.describe(folder, record)
            if driver.state.alive:
                raise AlreadyRunning(drivers.occupied(driver, folder.submission(driver.epoch)))
            # A driver killed alone may leave its JVM behind, and that still writes the checkpoint.
            processes.clear(processes.marker(stream.name, None, record.id))
        record = drivers.next_record(record, cause)
        submission = folder.submission(record.epoch)
        submission.create()
        submission.write_private(submission.token, secrets.token_urlsafe(32))
        host = self.driver_host or ("127.0.0.1" if loopback else None)
        shared = self._class_data(java, spark)
        made = settings(stream, record.epoch, master, self.spark_conf, host, shared)
        submission.write_private(submission.properties, properties(made))
        python = sys.executable  # has this package, so a driver started with it has it too
        env = drivers.environment(
            stream,
            submission,
            processes.marker(stream.name, record.epoch, record.id),
            java=java,
            spark=spark,
            python=python,
            executor_python=self.executor_python or (python if loopback else None),
            loopback=loopback,
        )
        folder.write(record)
        processes.launch(
            submission,
            drivers.command(
                stream, record.epoch, submission, python, self.agent_bind, program, arguments
            ),
            env,
        )
        folder.prune()
        return drivers.await_agent(folder, record, ANNOUNCE_SECONDS)

    def find(self, stream: str) -> Driver | None:
        folder = self._folder(stream)
        record = folder.read()
        return drivers.describe(folder, record) if record and record.epoch else None

    def history(self, stream: str) -> Sequence[Submission]:
        record = self._folder(stream).read()
        return record.history if record else ()

    def status(self, driver: Driver, timeout: float = 5.0, window: float | None = None) -> Status:
        submission = self._folder(driver.stream).submission(driver.epoch)
        return drivers.ask_status(driver, submission, timeout, window)

    def scale(self, driver: Driver, target: int, timeout: float = 10.0) -> Status:
        folder = self._folder(driver.stream)
        drivers.check_epoch(driver, folder.read())
        submission = folder.submission(driver.epoch)
        url, token = drivers.address(driver, submission), submission.read_token()
        return shared_client().scale(driver.stream, url, token, target, driver.epoch, timeout)

    def stop(
        self, driver: Driver, lease: Lease, graceful: bool = True, timeout: float = 120.0
    ) -> Driver:
        folder = self._folder(driver.stream)
        leases.check(folder.path, driver.stream, lease)
        record = drivers.check_epoch(driver, folder.read())
        if record.desired != "stopped":
            # First of all: should this process die now, nobody takes the end for a failure.
            record = replace(record, desired="stopped", desired_since=time.time())
            folder.write(record)
        submission = folder.submission(record.epoch)

        def alive() -> bool:
            return drivers.describe(folder, record).state.alive

        if alive() and drivers.ask_to_stop(driver, submission, graceful, timeout):
            processes.wait_until(lambda: not alive(), timeout if graceful else min(timeout, 15.0))
        there = alive()
        if there and record.host != processes.here():
            raise ClusterError(drivers.out_of_reach(drivers.describe(folder, record), submission))
        mark = processes.marker(driver.stream, None, record.id)
        if there:
            processes.terminate(submission, mark, alive)
        else:
            processes.clear(mark)
        return drivers.describe(folder, record)

    def logs(self, driver: Driver, lines: int = 50) -> str:
        return self._folder(driver.stream).submission(driver.epoch).tail(lines)

    def capacity(self) -> Capacity | None:
        content = masters.alive(self._web_urls())
        return masters.capacity(content) if content else None

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

    def _folder(self, stream: str) -> StreamFolder:
        return StreamFolder(self._state_path(), stream)

    def _state_path(self) -> Path:
        # Not the working directory if there is anything better: seen from another one, a stream
        # that runs would look as if it had never been started.
        home = Path(os.environ.get("DAGSTER_HOME") or Path.cwd()).expanduser()
        return (home / Path(self.state_dir).expanduser()).absolute()

    def _master(self) -> str:
        try:
            masters.hosts(self.master)
        except ValueError as error:
            raise ClusterError(str(error)) from None
        return self.master

    def _web_urls(self) -> Sequence[str]:
        return self.web_urls
