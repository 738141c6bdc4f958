"""How long batches take, by records and executors: the model that explains minutes best.

Weighted least squares of relative errors. The time for a record falls with the executors as tasks
run in waves, or as if they were a fluid; a part of it may be what no executor shortens. A model
with more in it is taken only where it explains clearly more. Pure.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.declare.learner import Workload

_CLEARLY = 0.9
"""Share of the squared errors that a model with more in it leaves at most, where it is taken."""
_MANY = 10_000
"""Tasks of a batch where no number is known, and a fluid explains its times: more than slots."""
_MOST_TASKS = 400
"""Tasks up to which a number is looked for by which waves explain the times."""
_BY_CHANCE = 2.0
"""Logarithm of the likelihood by which two numbers of tasks may differ by chance."""
_FOR_SERIAL = 3
"""Different numbers of executors that show a part which no executor shortens."""


@dataclass(frozen=True, slots=True)
class Row:
    """The batches of a minute whose executors are certain."""

    records: float
    """Records of a batch, on average."""
    seconds: float
    """Mean processing time."""
    executors: int
    tasks: int | None
    """Tasks of a batch; None: not known."""
    batches: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A model, and how well it explains the rows."""

    workload: Workload
    tasks: int | None
    """Tasks of a batch; None: as each row has them."""
    waves: bool
    overhead: float
    """Seconds of a batch, whatever its records."""
    alone: float
    """Seconds for each record that no executor shortens."""
    shared: float
    """Seconds of one slot for each record."""
    squares: float
    """Squared relative errors, each times the batches of its row."""
    rows: int

    @property
    def noise(self) -> float:
        """Relative standard deviation of the processing time of one batch."""
        return math.sqrt(self.squares / max(1, self.rows - 3))

    @property
    def error(self) -> float:
        """Typical relative error of a row of six batches, as a minute of 10 s batches has."""
        return self.noise / math.sqrt(6)

    def seconds(self, row: Row) -> float:
        """The processing time of a row's batches by this model."""
        share = _share(self.workload, row.tasks or self.tasks, self.waves, row.executors)
        return self.overhead + row.records * (self.alone + self.shared * share)

    def deviation(self, row: Row) -> float:
        """The error of a row in standard deviations."""
        if not self.noise:
            return 0.0
        error = abs(row.seconds / self.seconds(row) - 1)
        return error * math.sqrt(row.batches) / self.noise


def best_fit(rows: Sequence[Row], workload: Workload, before: Fit | None = None) -> Fit:
    """The model that explains these rows best, of those with as little in it as need be.

    Args:
        before: errors are relative to what it says; None: to the rows themselves, and a row that is
            too low by chance then counts for more than it should.
    """
    known = all(row.tasks is not None for row in rows)
    groups = _grouped(rows, known, before)
    plain = _solved(groups, workload, None if known else _MANY, False, False, len(rows))
    options = [
        _solved(groups, workload, tasks, True, False, len(rows))
        for tasks in ([None] if known else _told_apart(groups, workload))
    ]
    waves = _roundest(options)
    # Where the number of tasks is known, waves have no more in them than a fluid.
    best = waves if waves.squares < (1.0 if known else _CLEARLY) * plain.squares else plain
    if len({row.executors for row in rows}) < _FOR_SERIAL:
        return best
    serial = [
        _solved(groups, workload, each.tasks, each.waves, True, len(rows))
        for each in (plain, waves)
    ]
    more = min(serial, key=lambda each: each.squares)
    return more if more.squares < _CLEARLY * best.squares else best


def _roundest(options: Sequence[Fit]) -> Fit:
    """The best of the models that differ by the number of tasks; of those which explain the rows as
    well, so that chance may be between them, the one with the roundest number, as Spark's defaults
    are and people choose them."""
    best = min(options, key=lambda each: each.squares)
    # The likelihood of normal errors falls with the squares to the power of half their number.
    most = best.squares * math.exp(2 * _BY_CHANCE / best.rows)
    alike = [each for each in options if each.squares <= most]
    return min(alike, key=lambda each: (-_twos(each.tasks), each.squares))


def _twos(tasks: int | None) -> int:
    """The largest power of two that divides a number of tasks."""
    return 0 if tasks is None else tasks & -tasks


@dataclass(slots=True)
class _Group:
    """Weighted sums over the rows of one number of executors and tasks."""

    executors: int
    tasks: int | None
    one: float = 0.0
    r: float = 0.0
    rr: float = 0.0
    p: float = 0.0
    rp: float = 0.0
    pp: float = 0.0

    def add(self, row: Row, weight: float) -> None:
        self.one += weight
        self.r += weight * row.records
        self.rr += weight * row.records**2
        self.p += weight * row.seconds
        self.rp += weight * row.records * row.seconds
        self.pp += weight * row.seconds**2


def _told_apart(groups: Sequence[_Group], workload: Workload) -> list[int]:
    """Numbers of tasks, of those that make as many waves on all numbers of executors the roundest:
    nothing tells them apart but what a record costs."""
    places = [each.executors * workload.slots - workload.pinned for each in groups]
    found: dict[tuple[int, ...], int] = {}
    for tasks in range(2, _MOST_TASKS + 1):
        waves = tuple(-(-tasks // number) for number in places)
        if _twos(tasks) > _twos(found.get(waves)):
            found[waves] = tasks
    return [*found.values()]


def _grouped(rows: Sequence[Row], known: bool, before: Fit | None) -> list[_Group]:
    groups: dict[tuple[int, int | None], _Group] = {}
    for row in rows:
        key = (row.executors, row.tasks if known else None)
        scale = row.seconds if before is None else before.seconds(row)
        groups.setdefault(key, _Group(*key)).add(row, row.batches / scale**2)
    return [*groups.values()]


def _solved(
    groups: Sequence[_Group],
    workload: Workload,
    tasks: int | None,
    waves: bool,
    serial: bool,
    rows: int,
) -> Fit:
    """The best overhead and costs of a model, none of them below 0."""
    # Of the three columns 1, records, records * share: their products with each other and with the
    # seconds.
    products = [[0.0] * 3 for _ in range(3)]
    sides, total = [0.0] * 3, 0.0
    for each in groups:
        share = _share(workload, tasks or each.tasks, waves, each.executors)
        factors = (1.0, 1.0, share)
        squares = (
            (each.one, each.r, each.r),
            (each.r, each.rr, each.rr),
            (each.r, each.rr, each.rr),
        )
        for i in range(3):
            sides[i] += factors[i] * (each.p if i == 0 else each.rp)
            for j in range(3):
                products[i][j] += factors[i] * factors[j] * squares[i][j]
        total += each.pp
    best, least = (0.0, 0.0, 0.0), total
    for columns in _choices(serial):
        found = _solve(products, sides, columns)
        if found is None or min(found) < 0:
            continue
        left = total - sum(found[i] * sides[i] for i in range(3))
        if left < least:
            best, least = found, left
    return Fit(workload, tasks, waves, *best, squares=max(0.0, least), rows=rows)


def _choices(serial: bool) -> Iterator[tuple[int, ...]]:
    """The columns that a solution may have, of which those without a negative one count."""
    columns = (0, 1, 2) if serial else (0, 2)
    for count in range(1, len(columns) + 1):
        yield from combinations(columns, count)


def _solve(
    products: Sequence[Sequence[float]], sides: Sequence[float], columns: Sequence[int]
) -> tuple[float, float, float] | None:
    """Solve the normal equations of these columns by elimination; None: one follows from others."""
    # Columns differ by orders of magnitude: each is scaled to length 1.
    scale = [math.sqrt(products[i][i]) for i in columns]
    if not all(scale):
        return None
    rows = [
        [products[i][j] / scale[a] / scale[b] for b, j in enumerate(columns)]
        + [sides[i] / scale[a]]
        for a, i in enumerate(columns)
    ]
    for a, row in enumerate(rows):
        if row[a] < 1e-9:
            return None
        for other in rows[a + 1 :]:
            factor = other[a] / row[a]
            for b in range(a, len(row)):
                other[b] -= factor * row[b]
    found = [0.0, 0.0, 0.0]
    for a in reversed(range(len(rows))):
        rest = sum(rows[a][b] * found[columns[b]] * scale[b] for b in range(a + 1, len(rows)))
        found[columns[a]] = (rows[a][-1] - rest) / rows[a][a] / scale[a]
    return found[0], found[1], found[2]


@lru_cache(maxsize=50_000)
def _share(workload: Workload, tasks: int | None, waves: bool, executors: int) -> float:
    model = Application(workload, overhead=0.0, work=1.0, partitions=tasks, waves=waves)
    return model.share(executors)
