"""How long a change of state partitions will take: a rough estimate. Pure."""

from dagster_sparkscale.observe.status import Reconfiguration

ROWS_PER_SECOND = 100_000.0
"""State rows that are changed in a second where nothing is known of a query: two cores took 27 s
for the rewriting of 5 million, and 4 to 10 s more for both fingerprints."""
AT_LEAST = 10.0
"""Seconds that Spark's jobs and the checkpoint's logs take, however small the state is."""


def seconds(rows: int | None, earlier: Reconfiguration | None = None) -> float | None:
    """Seconds that a change may take; None where the rows are not known.

    Args:
        rows: of the state.
        earlier: a change of the same query, by whose rate this one is judged.
    """
    if rows is None:
        return None
    if earlier is not None and earlier.outcome == "changed" and earlier.rows and earlier.seconds:
        # What a smaller state takes less is not known.
        return sum(earlier.seconds.values()) * max(1.0, rows / earlier.rows)
    return AT_LEAST + rows / ROWS_PER_SECOND
