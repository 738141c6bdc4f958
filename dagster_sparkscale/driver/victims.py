"""Which executors go when there are more than the target. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A registered executor, as a choice sees it."""

    id: str
    active_tasks: int = 0
    receivers: int = 0
    leaving: bool = False
    """Told to leave already; still counts as registered."""


@dataclass(frozen=True, slots=True)
class Choice:
    victims: tuple[str, ...]
    blocked: str | None = None
    """Why fewer go than should, for people; None when all that should go do."""


def choose(executors: Sequence[Candidate], target: int) -> Choice:
    """Choose whom to remove, so that `target` executors stay.

    An executor that hosts a receiver never goes (SPARK-12133, V1: its receivers would have to be
    started elsewhere, and what they have received and not replicated would be lost). Of the
    others go first those that work on the fewest tasks, then the youngest, which hold the least
    cached and shuffled data.
    """
    staying = [executor for executor in executors if not executor.leaving]
    excess = max(0, len(staying) - target)
    free = [executor for executor in staying if executor.receivers == 0]
    free.sort(key=lambda executor: (executor.active_tasks, *_youngest_first(executor.id)))
    victims = tuple(executor.id for executor in free[:excess])
    if len(victims) == excess:
        return Choice(victims)
    holders = len(staying) - len(free)
    return Choice(
        victims,
        f"{holders} executor(s) hold receivers and are never removed: "
        f"{holders} will stay although the target is {target}",
    )


def _youngest_first(executor: str) -> tuple[int, str]:
    # Spark numbers executors in the order they are launched.
    return (-int(executor), "") if executor.isdecimal() else (1, executor)
