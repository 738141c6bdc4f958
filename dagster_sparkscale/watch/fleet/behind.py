"""How far a stream is behind, whatever its source tells: lag, what waits, its batch, rates. Pure.

Few sources tell a lag. Of the others it shows in what waits, in the age of the batch in progress,
and in what is taken of what is offered.
"""

from dagster_sparkscale.durations import span
from dagster_sparkscale.quantities import DASH, counted, number
from dagster_sparkscale.watch.fleet.rows import Row

TAKES_ALL = 0.98
"""Share of what is offered from which on all of it is taken: rates of a window are no closer."""


def behind(row: Row, with_lag: bool = True) -> str:
    """A sentence on how far it is behind; empty of one that does not run.

    Args:
        with_lag: whether it has the lag, if that is known; else that is said beside it.
    """
    if row.state != "running":
        return ""
    parts = [*_waiting(row)]
    if row.lag is not None:
        if with_lag:
            parts.insert(0, f"{span(row.lag)} behind the tip of its source")
    elif not parts and row.registered is None:
        # Nor is the number of executors: its agent, or Spark, does not answer.
        parts.append("how far behind it is and what waits is not known now")
    elif not parts:
        parts.append("its source does not tell how far behind it is, nor what waits")
    if row.batch_for is not None:
        parts.append(f"its batch in progress has run for {span(row.batch_for)}")
    parts += _rates(row)
    if row.throttled:
        least = "" if row.limit is None else f" of {number(row.limit)} records/s"
        known = row.lag is not None or row.backlog is not None or bool(row.files)
        parts.append(
            f"it takes all that its limit{least} lets it" + ("" if known else ", and more may wait")
        )
    return "; ".join(parts)


def in_a_cell(row: Row) -> str:
    """How far it is behind, in a cell: its lag, or what is known instead; a dash for nothing."""
    if row.lag is not None:
        return span(row.lag)
    if row.pending is not None and row.pending > 1:
        return f"{row.pending:,} batches"
    if row.backlog:
        return f"{row.backlog:,} rec"
    if row.files:
        return counted(row.files, "file")
    if row.stuck_for is not None:
        return f"> {span(row.stuck_for)}"
    return DASH


def _waiting(row: Row) -> list[str]:
    parts = []
    if row.pending is not None:
        due = "1 batch is" if row.pending == 1 else f"{row.pending:,} batches are"
        parts.append(f"{due} due and not done")
    if row.backlog is not None and (row.backlog or row.pending is None):
        parts.append("1 record waits" if row.backlog == 1 else f"{row.backlog:,} records wait")
    if row.files:  # at least none says nothing
        waiting = "1 file waits" if row.files == 1 else f"{row.files:,} files wait"
        parts.append(f"at least {waiting}")
    return parts


def _rates(row: Row) -> list[str]:
    """What is taken: of what is offered where that is known, or of what it could process."""
    taken = row.taken_rate
    if taken is None:
        return []
    offered = row.offered_rate
    if offered is not None and taken < TAKES_ALL * offered:
        return [f"{number(offered)} records/s are offered, and {number(taken)} are processed"]
    if not taken:
        return ["nothing comes in"]
    text = f"{number(taken)} records/s come in"
    if row.possible_rate is not None:
        text += f", and {number(row.possible_rate)} could be processed"
    return [text]
