"""The free room of a cluster, and whether an executor fits on one of its workers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dagster_sparkscale.declare.fields import mebibytes
from dagster_sparkscale.quantities import counted


@dataclass(frozen=True)
class Free:
    """The free room of one worker."""

    cores: int | None
    """Free cores; None: cores do not decide what fits."""
    memory: float
    """Free memory in MiB."""

    def executors(self, cores: int, memory: float) -> int:
        """The number of executors of that size that fit."""
        fit = int(self.memory // memory)
        return fit if self.cores is None else min(self.cores // cores, fit)

    def __str__(self) -> str:
        cores = "" if self.cores is None else f"{counted(self.cores, 'core')} and "
        return f"{cores}{self.memory:.0f} MiB"


@dataclass(frozen=True)
class Capacity:
    """The cores, memory and workers of a cluster now."""

    cores: int
    free_cores: int
    workers: int
    details: tuple[str, ...] = field(default=())
    """One line a worker, for people."""
    free: tuple[Free, ...] = field(default=(), repr=False)
    """What each worker has left."""
    granted: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Cores that an application has been given, by its id: those of executors that have not
    registered yet are among them. Without those of which that is not known."""

    def executors(self, cores: int, memory: str) -> int:
        """The number of further executors of that size that fit, at most. It ignores the memory
        that a cluster manager adds."""
        return sum(each.executors(cores, mebibytes(memory)) for each in self.free)

    def room_for(self, cores: int, memory: str) -> str:
        """Describe how many further executors of that size fit."""
        wanted = f"{counted(cores, 'core')} and {memory} of memory"
        if fit := self.executors(cores, memory):
            return f"there is room for {counted(fit, 'more executor')} of {wanted}"
        if not self.free:
            return "the cluster has no worker that takes executors"
        most = max(self.free, key=lambda each: ((each.cores or 0) >= cores, each.memory))
        return (
            f"no worker has {wanted} free for another executor: the one with most has {most} free "
            f"(of the cluster's {self.cores} cores {self.free_cores} are free, on {self.workers} "
            "worker(s))"
        )
