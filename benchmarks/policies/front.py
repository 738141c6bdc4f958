"""What rows amount to: means of groups, and who is better on both axes. Pure."""

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.policies.loads import GROUPS, Case, Group
from benchmarks.policies.running import Row

LATE, COST = 0.1, 0.01
"""Points of a percent late, and share of the cost, by more than which one has to be lower: less is
chance."""
MOST_LATE = 1.0
"""Percent late up to which a setting is searched that costs least."""
POINT = 0.5
"""Times the oracle that a percent late above that counts as much as, in the search."""


class Point(NamedTuple):
    """Where a policy is on the front of a group of loads: the means of its loads."""

    late: float
    cost: float


def point(rows: Iterable[Row]) -> Point:
    """The means of rows."""
    each = list(rows)
    return Point(
        statistics.fmean(row.late for row in each), statistics.fmean(row.cost for row in each)
    )


def points(found: Sequence[tuple[Case, Row]]) -> dict[Group, Point]:
    """The means of each group."""
    return {
        group: point(row for case, row in found if case.group == group)
        for group in GROUPS
        if any(case.group == group for case, _ in found)
    }


def score(found: Sequence[tuple[Case, Row]]) -> float:
    """What a search minimises: the cost, with a price on what is late above a percent, in the mean
    of the groups."""
    of = points(found).values()
    return statistics.fmean(each.cost + POINT * max(0.0, each.late - MOST_LATE) for each in of)


def better(one: Row, other: Row) -> bool:
    """Whether one is better than the other on both axes, by more than chance."""
    return one.late < other.late - LATE and one.cost < other.cost * (1 - COST)
