"""What is known of the state that the queries of a stream keep. Pure."""

from dagster_sparkscale.observe.status import Query, QueryState, Reconfiguration, Status

RUNNING_STEPS = (
    "preparing",
    "adding executors",
    "copying",
    "rewriting beside",
    "comparing",
    "catching up",
    "ending",
)
"""Steps of a change in place in which the query runs."""


def stateful(status: Status) -> tuple[tuple[Query, QueryState], ...]:
    """The active queries that keep state, with what is known of it."""
    return tuple((q, q.state) for q in status.queries if q.active and q.state is not None)


def untold(status: Status) -> tuple[Query, ...]:
    """The active queries of which it is not known yet whether they keep state: new ones, of which
    Spark tells with the first batch that has work."""
    return tuple(
        q for q in status.queries if q.active and q.state is None and q.cold and not q.stateless
    )


def rows(status: Status) -> int | None:
    """Rows of the state of all queries together; None as soon as one has not told."""
    known = [state.rows for _, state in stateful(status)]
    if untold(status) or not known or None in known:
        return None
    return sum(each or 0 for each in known)


def partitions(status: Status) -> int | None:
    """State partitions of the query that has most; None as soon as one has not told."""
    known = [state.partitions for _, state in stateful(status)]
    if untold(status) or not known or None in known:
        return None
    return max(each or 0 for each in known)


def rows_of_partitions(change: Reconfiguration) -> tuple[int, ...] | None:
    """Rows of each partition as that change has left them; None where they were not counted."""
    return change.partition_rows_after if change.outcome == "changed" else change.partition_rows


def stood_still(change: Reconfiguration) -> float | None:
    """Seconds for which the query did not run for a change, without a restart of the driver; None:
    not told. In place it runs while the change is prepared, and until its batch has ended."""
    if change.seconds is None:
        return None
    return sum(took for step, took in change.seconds.items() if step not in RUNNING_STEPS)


def last_change(
    status: Status, query: str | None = None, changed: str | None = None
) -> Reconfiguration | None:
    """What was last done about the state of a query, or of any: by this driver, or else by one
    before it; None: nothing that is known.

    Args:
        changed: the way by which it was changed, as `Reconfiguration.way`; None: whatever was done.
    """
    over = [
        each
        for each in status.state_changes
        if each.outcome is not None and query in (None, each.query) and _so(each, changed)
    ]
    if over:
        return over[-1]
    before = [q.state.last for q in status.queries if q.state and query in (None, q.name)]
    known = [each for each in before if each is not None and _so(each, changed)]
    return max(known, key=lambda each: each.began_at, default=None)


def _so(change: Reconfiguration, changed: str | None) -> bool:
    return changed is None or (change.outcome, change.way) == ("changed", changed)


def in_progress(doing: Reconfiguration) -> str:
    """Describe the change of state in progress, and how far it is; None: none is."""
    return f"reconfiguring the state of query {doing.query!r}: {at_step(doing)}"


def at_step(doing: Reconfiguration) -> str:
    """The step of a change, and how far a copy that catches up is behind its query."""
    if doing.step != "catching up" or doing.behind is None:
        return doing.step
    return f"{doing.step}, {doing.behind} {'batch' if doing.behind == 1 else 'batches'} behind"
