"""Many runs at a time: contestants with their settings, on loads, on two processes."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from typing import NamedTuple, TypeVar

from benchmarks.policies.contestants import Settings, named
from benchmarks.policies.loads import Case, Half, cases
from benchmarks.policies.running import Row, knowing, row

PROCESSES = 2
T = TypeVar("T")
R = TypeVar("R")


class Entry(NamedTuple):
    """A contestant with settings, on a load; each by its name."""

    contestant: str
    settings: tuple[tuple[str, object], ...]
    load: str


def entry(contestant: str, settings: Settings, load: str) -> Entry:
    """An entry of what a contestant is to be set to."""
    return Entry(contestant, tuple(sorted(settings.items())), load)


@cache
def _cases() -> dict[str, Case]:
    return {case.name: case for case in cases()}


def of(half: Half) -> list[Case]:
    """The loads of one half."""
    return [case for case in _cases().values() if case.half == half]


def oracles(loads: Iterable[str]) -> dict[str, float]:
    """Executor-hours of the oracle, by the load."""
    names = list(loads)
    return dict(zip(names, _on_all(_oracle_hours, names), strict=True))


def rows(entries: Sequence[Entry], hours: dict[str, float]) -> dict[Entry, Row]:
    """What came of entries.

    Args:
        hours: executor-hours of the oracle, by the load.
    """
    return dict(zip(entries, _on_all(partial(_row, hours), entries), strict=True))


def _oracle_hours(load: str) -> float:
    return knowing(_cases()[load]).executor_hours


def _row(hours: dict[str, float], of: Entry) -> Row:
    case, contestant = _cases()[of.load], named(of.contestant)
    settings = dict(of.settings)
    make = partial(contestant.make, case, **settings)
    return row(case, hours[of.load], make, contestant.interval)


def _on_all(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, items))
