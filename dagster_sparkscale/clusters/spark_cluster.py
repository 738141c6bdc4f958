"""What all cluster managers have in common: Spark settings, and the way of a start.

nothing bars it       no hold, a program, a checkpoint that nothing of this cluster works on
all is at hand        the cluster is up; what the launch needs has been found
epoch                 `starts.begin`: claims the checkpoint, swaps the record
launch                the cluster manager's own
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr, field_validator

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError, LeaseLost
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.pauses import pauses
from dagster_sparkscale.clusters.records import starts
from dagster_sparkscale.clusters.records.leases import LEASE_SECONDS, Lease
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.submitted import SubmittedDriver
from dagster_sparkscale.declare import checkpoints, drift
from dagster_sparkscale.declare.reserved import rival
from dagster_sparkscale.declare.stream import Stream

ANNOUNCE_SECONDS = 30.0
"""How long `submit` waits for the driver's agent before it returns a driver still starting."""


@dataclass(frozen=True)
class _Followed:
    """A driver that somebody waits for, as it was found last."""

    driver: Driver | None
    until: float
    """When it is looked for again, by `time.monotonic()`."""
    pauses: Iterator[float]
    """Seconds from each look to the next."""


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


class SparkCluster(ClusterManager):
    """Submits Spark applications, and looks after their drivers."""

    spark_conf: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Spark settings of all streams. Dagster shows them: secrets as dg.EnvVar.",
    )

    FOLLOW: ClassVar[float] = 0.0
    """Seconds for which what `follow` has found is had again, at most: whoever waits for long asks
    twice a second, and each look costs the cluster manager calls."""

    _followed: dict[tuple[str, int], "_Followed"] = PrivateAttr(default_factory=dict)
    """What was found, by the stream and epoch that is waited for."""

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _settings_are_common(cls, value: Any) -> Any:
        for key in value if isinstance(value, Mapping) else ():
            if not str(key).startswith("spark."):
                raise ValueError(f'{key}: a Spark setting begins with "spark."')
            if key in _PER_STREAM:
                raise ValueError(f"drop {key}: each stream declares its own")
        if isinstance(value, Mapping) and (why := rival(value)):
            raise ValueError(why)
        return value

    # What a cluster manager does its own way.

    @abstractmethod
    def driver_of(self, stream: str, record: Record) -> SubmittedDriver:
        """The newest submission of a stream with that record."""

    @abstractmethod
    def program_of(self, stream: Stream) -> Any:
        """Find the stream's program, for `launching`.

        Raises:
            ClusterError: the program can't be launched, such as because it is missing.
        """

    @abstractmethod
    def launching(self, call: Invocation) -> Callable[[EpochStart], None]:
        """Look up all that a launch needs, before the stream gets its next epoch. The returned call
        launches the driver, once the stream has the epoch.

        Raises:
            ClusterError: something is missing; nothing was started. From the call: the driver could
                not be launched; nothing of it runs.
        """

    @abstractmethod
    def took(self, stream: str, epoch: int) -> bool:
        """Whether that ended driver may have left its mark in its checkpoint, and did not report
        that it lost it.

        Raises:
            ClusterError: the driver's end can't be found out.
        """

    def place(self, location: str, settings: Mapping[str, str]) -> str:
        """The one name of a checkpoint, as far as this host knows it."""
        return checkpoints.normalized(location, settings)

    def make_way(self, lease: Lease, checkpoint: str | None) -> None:
        """See to it that nothing of this cluster works for the lease's stream, or on its
        checkpoint.

        Raises:
            AlreadyRunning: a driver does, or may.
        """
        self.driver_of(lease.stream, lease.record).make_way()

    # What follows from that.

    def submit(
        self,
        stream: Stream,
        lease: Lease,
        cause: str = "manual",
        settings: Mapping[str, str] | None = None,
        pinned: int | None = None,
    ) -> Driver:
        lease.check(stream.name)
        starts.refuse_if_held(stream.name, lease.record)
        call = Invocation(stream, self.program_of(stream), stream.program_arguments(), settings)
        checkpoint = self._checkpoint(stream)
        try:
            self.make_way(lease, checkpoint)
        except AlreadyRunning:
            # Its lease lost, this may have found the driver of whoever has the stream since.
            try:
                lease.renew()
            except LeaseLost:
                raise
            except ClusterError:  # what was found is known, and the lease was held a moment ago
                pass
            raise
        # A start that is refused leaves no cluster behind that it has started.
        self.prepare()
        launch = self.launching(call)
        start = starts.begin(
            self.store(),
            lease,
            starts.Drivers(
                self.who_runs,
                self.took,
                lambda name: self.lease(name, lease.holder, wait=_PATIENCE),
            ),
            cause=cause,
            checkpoint=checkpoint,
            declared=drift.declared(stream),
            executors=drift.executors_at_start(
                *(stream, lease.record.executors, lease.record.declared, pinned),
                slots=lease.record.slots.needed if lease.record.slots else None,
            ),
        )
        launch(start)
        return self.driver_of(stream.name, start.record).await_agent(ANNOUNCE_SECONDS)

    def find(self, stream: str) -> Driver | None:
        record = self.store().read(stream)
        return self.driver_of(stream, record).describe() if record and record.epoch else None

    def follow(self, driver: Driver) -> Driver | None:
        key = driver.stream, driver.epoch
        known = self._followed.get(key)
        if known is None or time.monotonic() >= known.until:
            rarely = known.pauses if known is not None else pauses(self.FOLLOW)
            found = self.find(driver.stream)
            known = _Followed(found, time.monotonic() + next(rarely), rarely)
            self._followed[key] = known
        return known.driver

    def end(self, driver: Driver, lease: Lease, graceful: bool, timeout: float) -> Driver:
        return self.driver_of(driver.stream, lease.record).end(lease, graceful, timeout)

    def who_runs(self, stream: str) -> str | None:
        """Describe the newest driver of that stream if it is, or may be, alive; None: it has
        ended."""
        driver = self.find(stream)
        if driver is None or not driver.state.alive:
            return None
        return f"its driver {driver.epoch} is {driver.state.value}, {driver.where}"

    def _checkpoint(self, stream: Stream) -> str | None:
        """The checkpoint of `stream` by the name that the fence uses; None if it declares none."""
        if stream.checkpoint_location is None:
            return None
        return self.place(stream.checkpoint_location, {**self.spark_conf, **stream.spark_conf})
