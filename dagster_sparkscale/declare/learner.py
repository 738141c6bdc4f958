"""What a policy may learn of a stream, and by what it decides then. Pure.

What is learned is a function of the stored minutes and of nothing else: it survives restarts,
anybody can see it with `history()`, and a backtest learns the same from the same minutes.
"""

from dataclasses import dataclass
from typing import Protocol, Self

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.minutes import Minute

BLOCK = 6 * 3600
"""Seconds. What is known is from the minutes of the present block and of the one before, so from
six to twelve hours of them; blocks begin at 0, 6, 12 and 18 o'clock UTC."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a learner has to know of a stream beside its minutes."""

    batch_interval: float
    """Seconds, as declared."""
    slots: int = 1
    """Tasks that an executor runs at a time."""
    tasks_per_shard: float = 1.0
    """Tasks of a batch for each shard of its source."""
    pinned: int = 0
    """Places of tasks that receivers take for good, as declared."""


class Learner(Protocol):
    """What a policy has learned of one stream. Immutable and small: a sensor keeps one of each of
    its streams."""

    def after(self, minute: Minute, /) -> Self:
        """What is known with one minute more, which is later than those before. Where minutes are
        missing, nothing was measured."""
        ...

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """The decision, as of `AutoscalePolicy`. The minute of `evaluation` is known already."""
        ...


@dataclass(frozen=True, slots=True)
class Learned:
    """What the minutes of the last blocks say, and no others: whoever reads these minutes back
    learns the same, and as fast as they are read."""

    nothing: Learner
    """Before the first minute."""
    block: int
    """The present one: seconds since the epoch / `BLOCK`."""
    of_two: Learner
    """What the minutes of the present block and of the one before say."""
    of_one: Learner
    """What those of the present block say; it goes on as `of_two` in the next one."""

    @classmethod
    def of(cls, nothing: Learner) -> Self:
        """What is known before the first minute."""
        return cls(nothing, 0, nothing, nothing)

    def after(self, minute: Minute, /) -> Self:
        """What is known with one minute more."""
        block = minute.at // BLOCK
        known = self if block <= self.block else self._in(block)
        of_two = known.of_two.after(minute)
        # In the first block they are one and the same.
        of_one = of_two if known.of_one is known.of_two else known.of_one.after(minute)
        return self.__class__(known.nothing, known.block, of_two, of_one)

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """The decision by what the last two blocks say."""
        return self.of_two.decide(bounds, evaluation)

    def _in(self, block: int) -> Self:
        """What is known when a later block begins."""
        before = self.of_one if block == self.block + 1 else self.nothing
        return self.__class__(self.nothing, block, before, self.nothing)


def since(now: float) -> int:
    """The first minute that counts for what is known now, seconds since the epoch."""
    return (int(now) // BLOCK - 1) * BLOCK
