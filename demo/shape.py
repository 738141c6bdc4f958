"""How much load there is when. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Phase:
    """The load moves evenly from where it is to `level` in `ramp` seconds, and stays for `hold`."""

    name: str
    level: float
    """Share of the highest load, 0 to 1."""
    ramp: float
    hold: float


# The highest load needs about three times the executors of the calm one. The load is quiet for
# longer than it was high: a policy adds several executors at once, but hesitates to remove them,
# and RatioPolicy removes one at a time.
PHASES = (
    Phase("calm", level=0.25, ramp=0, hold=20),
    Phase("rising", level=1.0, ramp=10, hold=0),
    Phase("high", level=1.0, ramp=0, hold=55),
    Phase("falling", level=0.03, ramp=10, hold=0),
    Phase("quiet", level=0.03, ramp=0, hold=120),
)


class Shape:
    """A load that goes through its phases again and again."""

    def __init__(self, phases: Sequence[Phase] = PHASES) -> None:
        if not phases or any(p.ramp < 0 or p.hold < 0 or p.level < 0 for p in phases):
            raise ValueError("phases: at least one, without negative numbers")
        self.phases = tuple(phases)
        self.period = sum(phase.ramp + phase.hold for phase in phases)
        if self.period <= 0:
            raise ValueError("phases: together they must last longer than 0 s")
        # (second, level): straight lines in between.
        corners = [(0.0, self.phases[0].level)]
        for phase in self.phases:
            at = corners[-1][0] + phase.ramp
            corners += [(at, phase.level), (at + phase.hold, phase.level)]
        self._corners = corners

    def level(self, seconds: float) -> float:
        """The load `seconds` after the start, as a share of the highest."""
        seconds %= self.period
        for (start, before), (end, after) in pairwise(self._corners):
            if start <= seconds < end:
                return before + (after - before) * (seconds - start) / (end - start)
        return self._corners[-1][1]

    def phase(self, seconds: float) -> str:
        """The name of the phase `seconds` after the start."""
        seconds %= self.period
        for phase in self.phases:
            seconds -= phase.ramp + phase.hold
            if seconds < 0:
                return phase.name
        return self.phases[-1].name


class Pacer:
    """Turns a rate that changes into whole records: what is left over counts the next time."""

    def __init__(self) -> None:
        self._owed = 0.0

    def due(self, rate: float, seconds: float) -> int:
        """How many records `rate` records per second make in `seconds`."""
        self._owed += rate * seconds
        records = int(self._owed + 1e-9)
        self._owed -= records
        return records
