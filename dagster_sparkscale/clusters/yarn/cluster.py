"""Streams on YARN, their drivers in ApplicationMasters (cluster deploy mode)."""

import getpass
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from dagster_sparkscale.clusters.base import Driver, is_text
from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.host.cluster import place_of
from dagster_sparkscale.clusters.host.conditions import conditions_here, program_here
from dagster_sparkscale.clusters.host.state_folder import StateFolderCluster
from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.yarn import applications
from dagster_sparkscale.clusters.yarn.application_fate import Yarn
from dagster_sparkscale.clusters.yarn.driver import YarnDriver
from dagster_sparkscale.clusters.yarn.launch import Client
from dagster_sparkscale.clusters.yarn.resource_manager import (
    ResourceManager,
    Unanswered,
    Web,
    room_of,
)
from dagster_sparkscale.clusters.yarn.snapshot import take_snapshot
from dagster_sparkscale.clusters.yarn.submission import (
    Files,
    Place,
    driver_arguments,
    environment,
    spark_settings,
)
from dagster_sparkscale.declare.stream import Stream

_STAGING, _TYPE = "spark.yarn.stagingDir", "spark.yarn.applicationType"
_BASH_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class OnYarn(StateFolderCluster):
    """Reaches a YARN, wherever drivers run."""

    hadoop_conf_dir: str = Field(
        description="Folder of the cluster's core-site.xml and yarn-site.xml, on this host."
    )
    resource_managers: list[str] = Field(
        default_factory=list,
        description="Web addresses of the ResourceManagers, http://host:8088: needed to tell the "
        "free cores.",
    )
    queue: str = Field(default="default", description="Queue that applications are submitted to.")
    user: str | None = Field(
        default=None,
        description="Who applications belong to where YARN believes what it is told (simple "
        "authentication). Default: HADOOP_USER_NAME, or the user of this process.",
    )
    ca_file: str | None = Field(
        default=None,
        description="Certificates of who signs for ResourceManagers and nodes where they speak "
        "HTTPS, PEM, on this host. Default: what REQUESTS_CA_BUNDLE names, or the system's.",
    )

    def capacity(self) -> Capacity | None:
        return room_of(self._manager())

    def _manager(self) -> ResourceManager:
        user = self.user or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        return ResourceManager(tuple(self.resource_managers), Web(user, self.ca_file))

    def _conf_dir(self) -> Path:
        return Path(self.hadoop_conf_dir).expanduser()

    def _refuse_without_settings(self) -> None:
        """Refuse a folder without the settings of a cluster.

        Raises:
            ClusterError: the folder, or yarn-site.xml in it, is missing.
        """
        if fault := _no_settings(self._conf_dir()):
            raise ClusterError(
                f"hadoop_conf_dir = {self.hadoop_conf_dir!r}: {fault}; must be the folder of the "
                "cluster's core-site.xml and yarn-site.xml, on this host"
            )


class YarnCluster(OnYarn):
    """Runs streams on YARN, driver and all. All settings may be `dg.EnvVar`s."""

    resource_managers: list[str] = Field(
        description="Web addresses of the ResourceManagers, http://host:8088: several where they "
        "stand by for each other."
    )
    python: str = Field(default="python3", description="Python of drivers and executors, on nodes.")
    staging_dir: str | None = Field(
        default=None,
        description="URI of the folder that Spark puts an application's files below. Default: the "
        "user's home in the cluster's file system.",
    )
    tags: list[str] = Field(default_factory=list, description="More tags of all applications.")
    principal: str | None = Field(default=None, description="Kerberos principal of applications.")
    keytab: str | None = Field(
        default=None, description="Its keytab, a file on this host: Spark ships it to the driver."
    )
    java_home: str | None = Field(default=None, description="Java of spark-submit. Default: found.")
    agent_bind: str = Field(
        default="0.0.0.0",
        description="Address that the agents listen at, on the drivers' nodes. They speak TLS.",
    )
    pass_environment: list[str] = Field(
        default_factory=list,
        description="Variables of Dagster's environment that spark-submit needs besides Java's, "
        "Spark's and Hadoop's. What a program needs belongs into the env of its stream.",
    )

    FOLLOW: ClassVar[float] = 4.0

    _snapshot: ResourceManager | None = PrivateAttr(default=None)

    @field_validator("resource_managers", mode="before")
    @classmethod
    def _urls(cls, value: Any) -> Any:
        right = 'must be the web address of a ResourceManager, such as ["http://host:8088"]'
        if isinstance(value, list | tuple) and not value:
            raise ValueError(right)
        for url in value if isinstance(value, list | tuple) else ():
            if is_text(url) and not url.startswith(("http://", "https://")):
                raise ValueError(f"{url!r}: {right}")
        return value

    @field_validator("tags", mode="before")
    @classmethod
    def _tags_are_yarns(cls, value: Any) -> Any:
        for tag in value if isinstance(value, list | tuple) else ():
            if isinstance(tag, str) and (not tag.isascii() or "," in tag or len(tag) > 100):
                raise ValueError(f"{tag!r}: must be 100 ASCII characters at most, without a comma")
        return value

    @field_validator("staging_dir")
    @classmethod
    def _is_said_once(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and _STAGING in (info.data.get("spark_conf") or {}):
            raise ValueError(f"drop it, or drop {_STAGING} of spark_conf: both say the same")
        return value

    def snapshot(self) -> Self:
        copy = self.model_copy()
        kind = self.spark_conf.get(_TYPE, "SPARK")
        copy._snapshot = take_snapshot(self._manager(), kind, self._tags)
        return copy

    def _tags(self) -> Iterator[str]:
        """The tags of all drivers that are not noted to have ended."""
        store = self.store()
        for name in store.streams():
            try:
                record = store.read(name)
                if record is None or not record.epoch:
                    continue
                files = store.folder(name).submission(record.epoch)
                has_ended = files.ended.exists() or files.exit.exists()
            except (ClusterError, OSError):
                continue  # whoever looks at that stream tells why
            if not has_ended:
                yield applications.of_epoch(record.id, record.epoch)

    def driver_of(self, stream: str, record: Record) -> YarnDriver:
        return YarnDriver(self.store().folder(stream), record, self._yarn())

    def program_of(self, stream: Stream) -> Path:
        program = _shippable(stream)
        if _STAGING in stream.spark_conf:
            raise ClusterError(
                f"{stream.name}: spark_conf: drop {_STAGING}: set staging_dir of the cluster, for "
                "what is left there of a driver that was killed is removed"
            )
        for name in stream.env:
            if not _BASH_NAME.fullmatch(name):
                raise ClusterError(
                    f"{stream.name}: env: {name!r}: must be letters, digits and underscores, for "
                    "YARN starts drivers by bash, which knows no other names"
                )
        return program

    def launching(self, call: Invocation) -> Callable[[EpochStart], None]:
        self._refuse_if_not_ready()
        place = Place(
            queue=self.queue,
            python=self.python,
            tags=self.tags,
            staging_dir=self._staging(),
            principal=self.principal,
            keytab=self.keytab,
        )

        def launch(start: EpochStart) -> None:
            def settings(files: Files) -> Mapping[str, str]:
                return spark_settings(call, start.record, self.spark_conf, place, files)

            command_line = driver_arguments(call, start, self.agent_bind)
            driver = self.driver_of(call.stream.name, start.record)
            driver.launch(settings, environment(call.stream.env), command_line, call.program)

        return launch

    def check(self, stream: Stream) -> None:
        self.program_of(stream)
        self._refuse_if_not_ready()

    def logs(self, driver: Driver, lines: int = 50) -> str:
        record = self.store().read(driver.stream)
        if record is not None and record.epoch == driver.epoch:
            return self.driver_of(driver.stream, record).log(lines)
        return self.files_of(driver).tail(lines)

    def took(self, stream: str, epoch: int) -> bool:
        record = self.store().read(stream)
        if record is None or record.epoch != epoch:
            return True
        return self.driver_of(stream, record).took()

    def place(self, location: str, settings: Mapping[str, str]) -> str:
        return place_of(location, settings)

    def make_way(self, lease: Lease, checkpoint: str | None) -> None:
        super().make_way(lease, checkpoint)
        if checkpoint is None:
            return
        ours = applications.of_record(lease.record.id)
        for app in self._manager().tagged(applications.of_checkpoint(checkpoint)):
            if not app.final and ours not in app.tags:
                self._refuse_stranger(lease, checkpoint, app)

    def _refuse_stranger(
        self, lease: Lease, checkpoint: str, app: applications.Application
    ) -> None:
        """Refuse to start beside an application that no record of ours is of, or another's."""
        claim = self.store().claim(checkpoint)
        theirs = claim is not None and applications.of_record(claim.id) in app.tags
        # One that was declared gone, and came back, is taken for ended: it is refused here.
        if claim is not None and theirs and self.who_runs(claim.stream):
            return  # starts.begin says whose it is
        raise AlreadyRunning(
            f"the checkpoint {checkpoint} of {lease.stream!r} is worked on by {app.id}, a driver "
            "that was started from another state folder, or of a stream that was forgotten, or one "
            f"that was declared gone. Two drivers on one checkpoint lose data: end it first, by "
            f"`yarn application -kill {app.id}`"
        )

    def conditions(self, streams: Sequence[Stream]) -> Iterator[Condition]:
        yield from conditions_here(self.state_path(), self.java_home, streams)
        try:
            yield Condition("ResourceManager", self._manager().check())
        except Unanswered as error:
            cure = "see whether resource_managers has its web address, and whether it runs"
            yield Condition("ResourceManager", str(error), cure)
        conf = self._conf_dir()
        fault = _no_settings(conf)
        needed = "put the cluster's core-site.xml and yarn-site.xml there, or name their folder"
        yield Condition("hadoop_conf_dir", fault or str(conf), needed if fault else None)

    def _refuse_if_not_ready(self) -> None:
        self._refuse_without_settings()
        if self.keytab and not Path(self.keytab).is_file():
            raise ClusterError(f"keytab = {self.keytab!r}: there is no such file")
        self._client()
        self._manager().check()

    def _staging(self) -> str | None:
        return self.staging_dir or self.spark_conf.get(_STAGING)

    def _manager(self) -> ResourceManager:
        return super()._manager() if self._snapshot is None else self._snapshot

    def _client(self) -> Client:
        return Client(
            java=java_home(self.java_home),
            spark=spark_home(),
            conf_dir=str(self._conf_dir()),
            user=self.user,
            passed=self.pass_environment,
        )

    def _yarn(self) -> Yarn:
        return Yarn(self._manager(), self._client(), self._staging())


def _no_settings(folder: Path) -> str | None:
    if not folder.is_dir():
        return f"{folder}: there is no such folder"
    if not (folder / "yarn-site.xml").is_file():
        return f"{folder}: there is no yarn-site.xml"
    return None


def _shippable(stream: Stream) -> Path:
    """The program of `stream`, which Spark can ship.

    Raises:
        ClusterError: there is no such program, or its path has a comma or #.
    """
    program = program_here(stream)
    if any(mark in str(program) for mark in ",#"):
        raise ClusterError(
            f"{stream.name}: program = {stream.program!r}: must be a path without a comma or #, "
            "for Spark has a list of files to ship"
        )
    return program
