"""Finds the query that takes all that its limits allow, and their origin. Pure."""

from collections.abc import Mapping, Sequence

from dagster_sparkscale.observe.status import Batch, Query, Status

FULL = 0.95
"""Share of its limit from which on a query's input stands at it. Blocks of receivers fall into one
batch or the next, so this is of all batches of the window together, and `HALF` of each one."""
HALF = 0.5
OWN = 0.8
"""Share of their limits below which sources are bounded by something else. An estimate may have
grown by as much since the last batch was planned."""


def allowed(
    active: Sequence[Query], batches: Sequence[Batch], intervals: Mapping[str, float]
) -> float | None:
    """Records per second that these queries may take together; None: one has no limit."""
    last = {batch.query: batch for batch in batches if batch.limit is not None or batch.records}
    limits = [last[q.name].limit if q.name in last else None for q in active]
    if not limits or None in limits:
        return None
    pairs = zip(active, limits, strict=True)
    return sum(1000 * limit / intervals[q.name] for q, limit in pairs if limit is not None)


def throttled(
    active: Sequence[Query], by_load: Sequence[str], batches: Sequence[Batch]
) -> str | None:
    """The active query with the highest R that stood at its limit; None: none did.

    Args:
        by_load: the queries that have an R, the worst first.
    """
    order = {name: number for number, name in enumerate(by_load)}
    names = sorted((q.name for q in active), key=lambda name: order.get(name, len(order)))
    return next((n for n in names if _at_limit([b for b in batches if b.query == n])), None)


def whose(status: Status, query: str | None, allowed: float | None) -> str | None:
    """The origin of the limits that bound this query.

    Args:
        allowed: records per second that its limits allowed lately.
    """
    limits = [limit for limit in status.limits if limit.query == query]
    rates = [limit.rate for limit in limits if limit.rate is not None]
    if query is None:
        return None
    if not rates:
        # None of its sources takes live limits: who reads one that does is known from the first
        # batch on. One that did might have had one until just now.
        return "source" if not limits and allowed is not None else None
    if allowed is not None and len(rates) == len(limits) and allowed < OWN * sum(rates):
        return "source"
    found = {limit.by for limit in limits if limit.rate is not None}
    return found.pop() if len(found) == 1 else None


def behind(active: Sequence[Query], name: str | None) -> float | None:
    """Seconds that the query of this name is behind."""
    ms = next((q.behind_ms for q in active if q.name == name and q.behind_ms is not None), None)
    return None if ms is None else ms / 1000


def _at_limit(batches: Sequence[Batch]) -> bool:
    """Whether the batches of one query, those without data too, took what they might."""
    taken, allowed = 0, 0.0
    for batch in batches:
        if batch.failed:
            continue
        if batch.limit is None or (batch.records or 0) < HALF * batch.limit:
            return False
        taken, allowed = taken + (batch.records or 0), allowed + batch.limit
    return allowed > 0 and taken >= FULL * allowed
