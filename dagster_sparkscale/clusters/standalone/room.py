"""How many executors of a stream an embedded cluster has room for, and what of a declaration it can
never give. Pure."""

from dataclasses import dataclass

from dagster_sparkscale.declare.fields import mebibytes
from dagster_sparkscale.declare.stream import Stream


@dataclass(frozen=True)
class Room:
    """What the workers offer, whatever else runs on them."""

    workers: int
    cores: int
    """Cores of each worker. They may exceed the machine's: executors then share its processors."""
    memory: str
    """Memory of each worker, as a JVM memory size."""

    @property
    def daemons(self) -> list[str]:
        """The daemons by name, the master first."""
        return ["master", *(f"worker {number}" for number in range(1, self.workers + 1))]

    def executors(self, cores: int, memory: str) -> int:
        """How many executors of that size fit."""
        by_memory = int(mebibytes(self.memory) / mebibytes(memory))
        return self.workers * min(self.cores // cores, by_memory)

    def misfit(self, stream: Stream) -> str | None:
        """Say which demand of `stream` this room can never meet, and what would fit; None: all
        fits."""
        cores, memory = stream.executor_cores, stream.executor_memory
        if cores > self.cores:
            return (
                f"executor_cores = {cores}: a worker of the embedded cluster has {self.cores}, and "
                "no executor would ever start: declare fewer, or raise cores_per_worker"
            )
        if mebibytes(memory) > mebibytes(self.memory):
            return (
                f"executor_memory = {memory!r}: a worker of the embedded cluster has "
                f"{self.memory}, and no executor would ever start: declare less, or raise "
                "memory_per_worker"
            )
        most = self.executors(cores, memory)
        for field, number in _numbers(stream):
            if number > most:
                return (
                    f"{field} = {number}: the embedded cluster has room for {most} executors of "
                    f"{cores} core(s) and {memory}, on {self.workers} worker(s) of {self.cores} "
                    f"core(s) and {self.memory}: declare at most {most}, or give LocalCluster more "
                    "workers, cores_per_worker or memory_per_worker"
                )
        return None


def _numbers(stream: Stream) -> list[tuple[str, int]]:
    """The numbers of executors that are declared, by the field that says so."""
    bounds, policy = stream.bounds, stream.autoscale
    numbers = [("executors", bounds.initial)]
    if policy is not None:
        numbers = [("min_executors", bounds.minimum), ("initial_executors", bounds.initial)]
        if policy.max_executors is not None and bounds.maximum is not None:
            numbers.append(("max_executors", bounds.maximum))
        if policy.ceiling is not None and bounds.ceiling is not None:
            numbers.append(("ceiling", bounds.ceiling))
    return numbers
