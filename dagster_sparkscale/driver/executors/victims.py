"""Chooses the executors that go when there are more than the target. Pure.

Its texts call a pin a receiver: nothing else pins executors.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A registered executor, as a choice sees it."""

    id: str
    active_tasks: int = 0
    pins: int = 0
    leaving: bool = False
    """Told to leave already; still counts as registered."""
    cores: int = 0
    """0: not known."""
    evacuating: bool = False
    """Chosen before, and its pins are on their way to others: it goes before the rest, so
    that a choice stands until it is carried out."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Whether an executor with pins may go (SPARK-12133)."""

    fitting: bool = False
    """False: never (V1). True: if the cores of those that stay run all pins and a task of a
    batch beside them (V2). Then nobody else goes either who is needed for that."""
    pins: int = 0
    """How many the program has in all, also those that run nowhere at the moment."""
    task_cpus: int = 1
    """Cores that a task takes, and so a receiver: `spark.task.cpus`."""


V1 = Rule()


@dataclass(frozen=True, slots=True)
class Choice:
    victims: tuple[str, ...]
    blocked: str | None = None
    """Why fewer go than should, for people; None when all that should go do."""
    why: str | None = None
    """Why just these, for people; None where nobody goes."""


def choose(executors: Sequence[Candidate], target: int, rule: Rule = V1) -> Choice:
    """Choose whom to remove, so that `target` executors stay.

    First go those with the fewest pins, which have the least to be started elsewhere; of
    these who work on the fewest tasks, then the youngest, which hold the least cached and
    shuffled data.
    """
    staying = [executor for executor in executors if not executor.leaving]
    excess = max(0, len(staying) - target)
    staying.sort(key=_order)
    needed = (rule.pins + 1) if rule.fitting and rule.pins else 0
    victims: list[Candidate] = []
    for each in staying:
        if len(victims) == excess:
            break
        gone = {victim.id for victim in victims} | {each.id}
        if each.pins and not rule.fitting:
            continue
        if needed <= tasks(staying, gone, rule.task_cpus):
            victims.append(each)
    gone = {victim.id for victim in victims}
    return Choice(
        tuple(victim.id for victim in victims),
        None if len(victims) == excess else _blocked(staying, gone, target, rule),
        _why(staying, victims, rule) if victims else None,
    )


def tasks(executors: Sequence[Candidate], gone: Collection[str], task_cpus: int) -> int:
    """How many tasks at once those run that do not go. One whose cores are not known counts for
    none: nobody knows whether it has room."""
    return sum(each.cores // task_cpus for each in executors if each.id not in gone)


def _order(executor: Candidate) -> tuple[bool, int, int, int, str]:
    # Spark numbers executors in the order they are launched.
    number = -int(executor.id) if executor.id.isdecimal() else 1
    later = not executor.evacuating
    return (later, executor.pins, executor.active_tasks, number, executor.id)


def _why(staying: Sequence[Candidate], victims: Sequence[Candidate], rule: Rule) -> str:
    words = "fewest receivers first, then least running work, then youngest: " + ", ".join(
        f"{each.id} ({each.pins} receivers, {each.active_tasks} tasks)" for each in victims
    )
    if rule.fitting and rule.pins:
        room = tasks(staying, {victim.id for victim in victims}, rule.task_cpus)
        words += f"; those that stay run {room} tasks at once, {rule.pins} of them receivers"
    return words


def _blocked(staying: Sequence[Candidate], gone: Collection[str], target: int, rule: Rule) -> str:
    left = [each for each in staying if each.id not in gone]
    if not rule.fitting:
        return (
            f"{len(left)} executor(s) hold receivers and are never removed: "
            f"{len(left)} will stay although the target is {target}"
        )
    room = tasks(left, (), rule.task_cpus)
    unknown = [each.id for each in left if not each.cores]
    words = (
        f"{len(left)} executor(s) will stay although the target is {target}: one less, and those "
        f"that stay would not run all {rule.pins} receivers and a task of a batch beside them "
        f"(the {len(left)} run {room} tasks at once)"
    )
    if unknown:
        words += f"; how many cores there are is not known of executor(s) {', '.join(unknown)}"
    return words
