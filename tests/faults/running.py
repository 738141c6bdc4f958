"""Plays many schedules of each fault, in several processes, and sums up what came of them."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

from tests.faults.kinds import FAULTS
from tests.faults.playing import play

AT_A_TIME = 25
"""Schedules that a process plays before it tells of them."""


@dataclass
class Tried:
    """What came of the schedules of one fault."""

    fault: str
    schedules: int = 0
    broken: dict[int, list[str]] = field(default_factory=dict)
    """What was found that must not be, by the seed."""
    two_drivers: int = 0
    """Schedules in which two drivers worked on one checkpoint."""
    met: Counter[tuple[str, Any]] = field(default_factory=Counter)
    """How often each method has met each fault."""
    operations: int = 0
    recovered: list[float] = field(default_factory=list)
    """Seconds of the simulation from a driver's death until the next one worked."""

    @property
    def held(self) -> bool:
        return not self.broken

    @property
    def calls(self) -> int:
        """The calls that have met the fault."""
        return self.met.total()

    @property
    def summary(self) -> dict[str, Any]:
        """The sums, for a file."""
        return {
            "fault": self.fault,
            "schedules": self.schedules,
            "operations": self.operations,
            "calls": self.calls,
            "two_drivers": self.two_drivers,
            "broken": self.broken,
        }

    def quantile(self, part: float) -> float:
        """Seconds within which so great a part of the dead drivers had a successor."""
        known = sorted(self.recovered)
        return known[min(len(known) - 1, int(part * len(known)))] if known else 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.recovered) if self.recovered else 0.0

    def add(self, other: "Tried") -> None:
        self.schedules += other.schedules
        self.broken |= other.broken
        self.two_drivers += other.two_drivers
        self.met += other.met
        self.operations += other.operations
        self.recovered += other.recovered


def tried(fault: str, seeds: Iterable[int]) -> Tried:
    """Play a schedule of each seed."""
    found = Tried(fault)
    for seed in seeds:
        played = play(FAULTS[fault], seed)
        found.schedules += 1
        if not played.held:
            found.broken[seed] = played.found
        found.two_drivers += played.two_drivers
        found.met += played.met
        found.operations += len(played.deeds)
        found.recovered += played.recovered
    return found


def all_tried(seeds: Sequence[int], processes: int) -> dict[str, Tried]:
    """Every fault with these seeds."""
    sums = {name: Tried(name) for name in FAULTS}
    for each in _in_processes(seeds, processes):
        sums[each.fault].add(each)
    return sums


def _in_processes(seeds: Sequence[int], processes: int) -> Iterator[Tried]:
    parts = [
        (name, seeds[begin : begin + AT_A_TIME])
        for begin in range(0, len(seeds), AT_A_TIME)
        for name in FAULTS
    ]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(tried, *zip(*parts, strict=True))
