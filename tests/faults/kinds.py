"""The faults that are played: what a call meets on its way, to which part of the cluster."""

from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    """What becomes of a call. The value is its part of a fault's name."""

    FAILS_BEFORE = "fails-before"
    TIMES_OUT_AFTER = "times-out-after"
    RESETS_AFTER = "resets-after"
    ANSWERS_LATE = "answers-late"
    ANSWERS_AFTER_LEASE = "answers-after-lease"
    CARRIED_OUT_LATE = "carried-out-late"

    @property
    def in_words(self) -> str:
        return _IN_WORDS[self]


_IN_WORDS = {
    Mode.FAILS_BEFORE: "fails, and is not carried out",
    Mode.TIMES_OUT_AFTER: "is carried out, and its answer does not come in time",
    Mode.RESETS_AFTER: "is carried out, and the connection is reset at once",
    Mode.ANSWERS_LATE: "is carried out, and its answer comes 1 to 15 s late",
    Mode.ANSWERS_AFTER_LEASE: "is carried out, and who asked hears of it when its lease is over",
    Mode.CARRIED_OUT_LATE: "times out, and is carried out up to 60 s after that",
}


class Clocks(Enum):
    """What is wrong with the clocks on the wall of Dagster's hosts. The value is its part of a
    fault's name."""

    APART = "apart"
    JUMP = "jump"

    @property
    def in_words(self) -> str:
        return _OF_CLOCKS[self]


_OF_CLOCKS = {
    Clocks.APART: "runs and ticks are on hosts whose clocks are a minute or an hour ahead or "
    "behind, each by another",
    Clocks.JUMP: "the clock of all runs and ticks jumps to a minute or an hour ahead or behind, "
    "and on to another, about once a minute",
}
OFF = (-3600.0, -60.0, 60.0, 3600.0)
"""Seconds by which a clock is wrong."""
PARTS = {
    "store": "a call to the store of records and claims",
    "agent": "a request to the agent of a driver",
    "cluster": "a call to the cluster manager (launch, look, clear away, ...)",
}
EVERYWHERE = "everywhere"
"""The part that stands for all of them."""
RATES = (0.02, 0.05, 0.15)
"""The shares of calls that meet the fault; a seed chooses one of them."""
RATES_OF_AGENT = (0.05, 0.15, 0.4)
"""Of its calls there are fewer."""
RATES_OF_CLOCKS = (0.2, 0.5, 1.0)
"""The shares of runs and ticks on a wrong clock, or of minutes in which it jumps."""
CLOCKS = "clocks"
"""The part that no call goes to."""


@dataclass(frozen=True)
class Fault:
    """What happens to calls, or to clocks. Without a mode, anything does to any call."""

    part: str
    mode: Mode | Clocks | None = None
    """None: any of `Mode`."""

    @property
    def name(self) -> str:
        return f"{self.part}-{self.mode.value if self.mode else 'anything'}"

    @property
    def in_words(self) -> str:
        if self.mode is None:
            return "any call meets any of these, each time another one"
        if isinstance(self.mode, Clocks):
            return self.mode.in_words
        return f"{PARTS.get(self.part, 'any call')} {self.mode.in_words}"

    @property
    def rates(self) -> tuple[float, ...]:
        return {"agent": RATES_OF_AGENT, CLOCKS: RATES_OF_CLOCKS}.get(self.part, RATES)

    def hits(self, part: str) -> bool:
        return self.part in (EVERYWHERE, part)


ANYTHING = Fault(EVERYWHERE)
FAULTS = {
    each.name: each
    for each in (
        *(Fault(part, mode) for part in PARTS for mode in Mode),
        *(Fault(CLOCKS, mode) for mode in Clocks),
        ANYTHING,
    )
}
"""By name."""
