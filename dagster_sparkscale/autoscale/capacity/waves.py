"""How many tasks a batch has, by what more or fewer executors did. Pure.

Where a source does not tell, changes of the executors do. Where tasks come in waves,
one executor more often brings nothing, and then a whole wave. So each change says which numbers of
tasks there may be: the work of a record before and after it is compared with what each number
predicts, and with what is predicted where work is fluid.
"""

from functools import lru_cache
from math import log
from typing import NamedTuple, Self

NUMBERS = (
    *(
        64,
        200,
        32,
        128,
        16,
        8,
        256,
        100,
        50,
        48,
        96,
        24,
        12,
        4,
        2,
        40,
        80,
        160,
        20,
        10,
        36,
        72,
        144,
    ),
    *(
        60,
        30,
        120,
        6,
        3,
        5,
        18,
        25,
        192,
        150,
        300,
        320,
        384,
        400,
        500,
        512,
        9,
        15,
        28,
        44,
        56,
        88,
        112,
    ),
)
"""The numbers of tasks that are thought of; the usual ones first."""
_KEEP = 0.98
"""What is left of the evidence of one change after the next."""
_CLEARLY = 12.0
"""Noise variances by which the squared errors of what was believed exceed those of what is believed
instead: a likelihood ratio of e^6."""
_MOST, _JUDGED = 5, 2
"""Minutes before a change, and after it, that are compared."""
_FAR = 0.25
"""The largest squared error of one minute: beyond it something else has happened."""
_OTHER_WORK = 0.25
"""Logarithm by which the work of a record changes at a time, from which on it is another one."""
_UNLIKELY = 0.02
"""Squared error that counts for a number as if measured, times its place among the usual ones."""
_PRIOR = tuple(_UNLIKELY * place / len(NUMBERS) for place in range(len(NUMBERS)))


@lru_cache(maxsize=1024)
def _predicted(then: int, slots: int) -> tuple[float, ...]:
    """Logarithm by which the time of a record changes from so many places to others, by each of
    `NUMBERS`."""
    return tuple(log(-(-n // slots) / -(-n // then)) for n in NUMBERS)


class Stay(NamedTuple):
    """Minutes on one number of executors."""

    slots: int
    """Places for tasks."""
    work: float
    """Mean logarithm of the time of a record, overhead apart."""
    minutes: int


class Evidence(NamedTuple):
    """What the changes so far have said."""

    errors: tuple[float, ...] = _PRIOR
    """The squared errors of each of `NUMBERS`."""
    fluid: float = 0.0
    """Squared errors of fluid work."""
    flat: float = 0.0
    """Squared errors of work that no executor shares."""
    tasks: int | None = None
    """The number of tasks that is believed; None: none, work is as good as fluid."""
    most: int = 0
    """The most places that were tried."""
    before: Stay | None = None
    now: Stay | None = None

    def interrupted(self) -> Self:
        """After minutes that are missing: the next stay is compared with none."""
        return self._replace(before=None, now=None)

    def after(self, slots: int, time: float, noise: float) -> Self:
        """With one minute more on certain executors.

        Args:
            time: of a record, overhead apart; above 0.
            noise: variance of its logarithm from minute to minute.
        """
        work, now, before = log(time), self.now, self.before
        if now is None or now.slots != slots:
            before, stay = now, Stay(slots, work, 1)
        elif abs(work - now.work) > _OTHER_WORK:
            # What a record costs has changed, which is none of the executors' doing.
            return self._replace(before=None, now=Stay(slots, work, 1))
        else:
            minutes = now.minutes + 1
            mean = now.work + (work - now.work) / min(minutes, _MOST)
            stay = Stay(slots, mean, minutes)
        known = self.__class__(
            *(self.errors, self.fluid, self.flat, self.tasks, max(self.most, slots)),
            *(before, stay),
        )
        if before is None or stay.minutes > _JUDGED:
            return known
        return known._judged(before, work, slots)._believing(_CLEARLY * noise)

    def _judged(self, before: Stay, work: float, slots: int) -> Self:
        """With what a minute soon after a change says."""
        found, then = work - before.work, before.slots
        weight = 1 / (1 / min(before.minutes, _MOST) + 1)
        errors = tuple(
            [
                _KEEP * old + weight * (off if (off := (found - of) ** 2) < _FAR else _FAR)
                for of, old in zip(_predicted(then, slots), self.errors, strict=True)
            ]
        )
        fluid = _KEEP * self.fluid + weight * min(_FAR, (found - log(then / slots)) ** 2)
        flat = _KEEP * self.flat + weight * min(_FAR, found**2)
        return self._replace(errors=errors, fluid=fluid, flat=flat)

    def _believing(self, clear: float) -> Self:
        """With the number of tasks that is believed by all that is known."""
        least = min(self.errors)
        if self.flat - least < clear:
            # What executors do not share says as much: the model has a cost for that.
            return self._replace(tasks=None)
        own = self.fluid if self.tasks is None else self.errors[NUMBERS.index(self.tasks)]
        if own - min(least, self.fluid) < clear:
            return self
        best = None if self.fluid < least else NUMBERS[self.errors.index(least)]
        return self._replace(tasks=best)
