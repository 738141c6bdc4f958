"""A real Standalone cluster of its own on this machine: the default, with nothing to set up.

    python -m dagster_sparkscale.clusters.local start|status|stop --state-dir .sparkscale

The master and the workers are detached processes, as the drivers are: they outlive Dagster, and
are found again by the state folder.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, field_validator

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.class_data import archives
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.cluster import HostedCluster
from dagster_sparkscale.clusters.java import java_home, spark_home
from dagster_sparkscale.clusters.launch import class_data_options
from dagster_sparkscale.clusters.standalone import masters
from dagster_sparkscale.clusters.standalone.daemons import Daemons
from dagster_sparkscale.clusters.standalone.room import Room
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.fields import check_memory
from dagster_sparkscale.declare.stream import Stream


class LocalCluster(HostedCluster):
    """An embedded Spark cluster: master and workers on the loopback of this machine.

    It is started when the first stream is, and repaired whenever one is started: a master that
    died comes back at its address and recovers the running streams.
    """

    workers: int = Field(default=2, description="Number of workers.")
    cores_per_worker: int = Field(
        default=4,
        description="Cores each worker offers. May be more than the machine has; executors then "
        "share its processors.",
    )
    memory_per_worker: str = Field(
        default="4g", description='Memory each worker offers to executors, such as "4g".'
    )

    class_data: bool = Field(
        default=True,
        description="Keep an archive of Spark's classes in the user's cache folder, made once in "
        "the background (about 200 MB and two minutes of CPU): JVMs start faster with it.",
    )

    @field_validator("workers", "cores_per_worker", mode="before")
    @classmethod
    def _at_least_one(cls, value: Any) -> Any:
        # Not one that an environment variable is to say: its type is another.
        if isinstance(value, bool) or (type(value) is int and value < 1):
            raise ValueError("must be a whole number, at least 1")
        return value

    @field_validator("memory_per_worker", mode="before")
    @classmethod
    def _memory_is_a_size(cls, value: Any) -> Any:
        return value if isinstance(value, dg.EnvVar) else check_memory(value)

    def prepare(self) -> None:
        """Start the cluster, or what has died of it. Cheap when nothing has.

        Raises:
            ClusterError: no Java, no Spark, or something did not come up; says which and why.
        """
        daemons, room = self._daemons(), self._room()
        if not daemons.healthy(room):
            java, spark = java_home(self.java_home), spark_home()
            shared = self._class_data(java, spark).get("executor", ())
            daemons.start(room, java, spark, self._in_use(), shared, self.pass_environment)

    def shutdown(self, force: bool = False) -> None:
        """End the master and all workers.

        Args:
            force: stop the streams that run first, without waiting for their batches.

        Raises:
            ClusterError: streams are running and `force` is not set, or something can't be killed.
        """
        running = self._running()
        if running and not force:
            names = ", ".join(driver.stream for driver in running)
            raise ClusterError(
                f"streams run on the embedded cluster: {names}; stop them first, or use force"
            )
        for driver in running:
            with self.lease(driver.stream, "cluster shutdown", wait=60.0) as lease:
                newest = self.find(driver.stream)
                if newest is not None:
                    self.stop(newest, lease, graceful=False, timeout=15.0)
        archives.end_making(self._mark())
        self._daemons().stop()

    def capacity(self) -> Capacity | None:
        addresses = self._daemons().addresses()
        content = masters.alive([addresses[1]]) if addresses else None
        return masters.capacity(content) if content else None

    def misfit(self, stream: Stream) -> str | None:
        room = self._room()
        # What an environment variable is to say is not known yet; it has another type.
        known = [*map(type, (room.workers, room.cores, room.memory))] == [int, int, str]
        return room.misfit(stream) if known else None

    def check(self, stream: Stream) -> None:
        # Before a cluster is started in vain.
        self.program_of(stream)
        self.prepare()
        super().check(stream)

    def _running(self) -> list[Driver]:
        found = [self.find(name) for name in self.store().streams()]
        return [driver for driver in found if driver is not None and driver.state.alive]

    def _in_use(self) -> bool:
        try:
            return bool(self._running())
        except ClusterError:
            return True  # what can't be read may well be running

    def _class_data(self, java: Path, spark: Path) -> dict[str, list[str]]:
        if self.class_data_archive or not self.class_data:
            return super()._class_data(java, spark)
        if class_data_options.decided_by(os.environ):
            return {}
        archive = archives.see_to(java, spark, self._mark())
        roles = ("driver", "executor")
        return dict.fromkeys(roles, class_data_options.options(archive)) if archive else {}

    def _mark(self) -> str:
        return str(self.state_path())

    def _room(self) -> Room:
        return Room(self.workers, self.cores_per_worker, self.memory_per_worker)

    def _daemons(self) -> Daemons:
        return Daemons(self.state_path())

    def _master(self) -> str:
        addresses = self._daemons().addresses()
        if addresses is None:
            raise ClusterError(
                f"the embedded cluster of {self.state_path()} has not been started: call "
                "prepare(), or run `python -m dagster_sparkscale.clusters.local start`"
            )
        return addresses[0]

    def _access(self) -> dict[str, str]:
        return self._daemons().access()

    def _on_loopback(self) -> bool:
        return True


def _describe(cluster: LocalCluster, capacity: Capacity | None) -> str:
    addresses, folder = cluster._daemons().addresses(), f"state folder {cluster.state_path()}"
    if addresses is None:
        return f"{folder}: no cluster has been started there."
    if capacity is None:
        return f"{folder}: its master at {addresses[0]} does not answer."
    lines = [
        folder,
        f"master {addresses[0]}, UI {addresses[1]}",
        f"{capacity.workers} worker(s), {capacity.free_cores} of {capacity.cores} cores free",
        *capacity.details,
    ]
    lines += [
        f"{driver.stream}: {driver.state.value}, epoch {driver.epoch}, {driver.where}"
        for driver in cluster._running()
    ]
    if cluster.class_data and not cluster.class_data_archive:
        try:
            java, spark = java_home(cluster.java_home), spark_home()
            shared = archives.describe(java, spark, archives.user_folder())
        except (ClusterError, RuntimeError) as error:
            shared = f"none ({error})"
        lines.append(f"class data: {shared}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dagster_sparkscale.clusters.local",
        description="Start, look at or stop the embedded Spark cluster.",
    )
    parser.add_argument("action", choices=("start", "status", "stop"))
    parser.add_argument("--state-dir", default=".sparkscale")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores-per-worker", type=int, default=4)
    parser.add_argument("--memory-per-worker", default="4g")
    parser.add_argument("--force", action="store_true", help="stop: stop running streams as well")
    options = parser.parse_args(arguments)
    fields: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("state_dir", "workers", "cores_per_worker", "memory_per_worker")
    }
    try:
        cluster = LocalCluster(**fields)
    except DeclarationError as error:
        parser.error("; ".join(str(error).splitlines()))
    try:
        if options.action == "start":
            cluster.prepare()
        if options.action == "stop":
            if cluster._daemons().addresses() is None:
                print(f"There is no cluster in {cluster.state_path()}.", file=sys.stderr)
                return 1
            cluster.shutdown(force=options.force)
            print(f"Stopped the cluster of {cluster.state_path()}.")
        else:
            print(_describe(cluster, cluster.capacity()))
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
