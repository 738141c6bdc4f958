"""What a cluster has left, and whether an executor fits on one of its workers. Pure."""

from dataclasses import dataclass, field

from dagster_sparkscale.declare.fields import mebibytes


@dataclass(frozen=True)
class Free:
    """What one worker has left."""

    cores: int | None
    """None: they do not decide what fits."""
    memory: float
    """MiB."""

    def executors(self, cores: int, memory: float) -> int:
        """How many of so many cores and MiB fit."""
        fit = int(self.memory // memory)
        return fit if self.cores is None else min(self.cores // cores, fit)

    def __str__(self) -> str:
        cores = "" if self.cores is None else f"{_cores(self.cores)} and "
        return f"{cores}{self.memory:.0f} MiB"


@dataclass(frozen=True)
class Capacity:
    """What the cluster offers now."""

    cores: int
    free_cores: int
    workers: int
    details: tuple[str, ...] = field(default=())
    """One line a worker, for people."""
    free: tuple[Free, ...] = field(default=(), repr=False)
    """What each worker has left."""

    def executors(self, cores: int, memory: str) -> int:
        """How many executors more of that size fit, at most: each on one worker. What a cluster
        manager adds to their memory is not counted."""
        return sum(each.executors(cores, mebibytes(memory)) for each in self.free)

    def room_for(self, cores: int, memory: str) -> str:
        """How many executors more of that size fit, in words."""
        wanted = f"{_cores(cores)} and {memory} of memory"
        if fit := self.executors(cores, memory):
            return f"there is room for {fit} more executor{'s' * (fit != 1)} of {wanted}"
        if not self.free:
            return "the cluster has no worker that takes executors"
        most = max(self.free, key=lambda each: ((each.cores or 0) >= cores, each.memory))
        return (
            f"no worker has {wanted} free for another executor: the one with most has {most} free "
            f"(of the cluster's {self.cores} cores {self.free_cores} are free, on {self.workers} "
            "worker(s))"
        )


def _cores(number: int) -> str:
    return f"{number} core{'s' * (number != 1)}"
