"""How long a query stands still for a change of its state, as far as that can be told before. Pure.

A rough estimate: by the rows of the state, and by the stores that are opened for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dagster_sparkscale.observe.state import stood_still
from dagster_sparkscale.observe.status import Reconfiguration

ROWS_PER_SECOND = 250_000.0
"""State rows that are changed in a second where nothing is known of a query: two cores took 17 s
for 5 million in place, and 29 s for 10 million."""
AT_LEAST = 10.0
"""Seconds that Spark's jobs and the checkpoint's logs take, however small the state is."""
AT_LEAST_IN_PLACE = 3.0
"""Seconds that they take in a driver that runs, whose code is warm, with the start and a batch."""
AT_LEAST_BESIDE = 5.0
"""Seconds that the last batches on the copy take besides."""
ROWS_COMPARED = 1_000_000.0
"""State rows of which both copies are read, compared and loaded in a second."""
STORE = 0.15
"""Seconds of a task slot for a store that is opened, however few rows it has."""
_COSTS = {
    "restart": (AT_LEAST, ROWS_PER_SECOND, 3),
    "in place": (AT_LEAST_IN_PLACE, ROWS_PER_SECOND, 3),
    "beside the stream": (AT_LEAST_BESIDE, ROWS_COMPARED, 2),
}
"""Seconds at least, rows a second, and how often each new store is opened (rewritten, read, and
loaded by the first batch), by the way of a change. Each old one is opened once."""
_STORES = {"symmetricHashJoin": 4}
"""The stores of a partition, of operators that have several."""


@dataclass(frozen=True)
class Stores:
    """The stores in which a query keeps its state."""

    slots: int = 0
    """Tasks that run at a time; 0: not known, and then nothing is told of what stores take."""
    of_partition: int = 1

    @classmethod
    def of(cls, operators: Iterable[str], slots: int) -> "Stores":
        """The stores of these operators, of which a query that keeps state has one at least."""
        return cls(slots, sum(_STORES.get(each, 1) for each in operators) or 1)

    def seconds(self, before: int, after: int, way: str) -> float:
        """Seconds that opening them takes for a change of the number of partitions."""
        opened = self.of_partition * (before + _COSTS[way][2] * after)
        return opened * STORE / self.slots if self.slots else 0.0


def seconds_of_change(
    rows: int | None,
    before: int,
    after: int,
    stores: Stores,
    earlier: Reconfiguration | None = None,
    way: str = "restart",
) -> float | None:
    """Seconds for which a query stands still for a change; None where the rows are not known.

    Args:
        rows: of the state.
        before, after: numbers of partitions.
        earlier: a change of the same query, by whose rate this one is judged.
        way: how it is made, as `Reconfiguration.way`.
    """
    if rows is None:
        return None
    opening = stores.seconds(before, after, way)
    if (
        earlier is not None
        and (earlier.outcome, earlier.way) == ("changed", way)
        and earlier.rows
        and (seconds := stood_still(earlier))
    ):
        # What a smaller state, or fewer stores, take less is not known.
        then = stores.seconds(earlier.before or 0, earlier.after or 0, way)
        return seconds * max(1.0, rows / earlier.rows) + max(0.0, opening - then)
    least, rate, _ = _COSTS[way]
    return least + rows / rate + opening
