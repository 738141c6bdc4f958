"""How a change of state partitions is made: beside the stream, in the driver that runs, or at the
start of the next one. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dagster_sparkscale.declare.state import State
from dagster_sparkscale.driver.state.beside import limits
from dagster_sparkscale.driver.state.beside.limits import Limits
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.state.more import More

NO_MORE = More()
_OF_WITHIN = 0.5
"""The part of the time for a whole change in which a copy has to catch up: the rest is for a change
without one."""
_RECENT = 10
"""Batches by which a driver judges how busy its query is."""


@dataclass(frozen=True)
class Way:
    """How a change is made."""

    in_place: bool
    """Whether in the driver that runs, which ends the query alone and starts it again; else by a
    restart of the driver."""
    why: str | None = None
    """Why a restart is needed, for people; None: it is not."""
    limits: Limits | None = None
    """What may be done beside the stream, where it is made in place; None: nothing."""
    why_in_place: str | None = None
    """Why nothing is done beside the stream, for people; None: it is, as far as is known."""
    more: More = NO_MORE
    """The executors that the stream has more of meanwhile, where it is."""

    @property
    def beside(self) -> bool:
        """Whether the new state is made while the query runs."""
        return self.in_place and self.why_in_place is None

    @property
    def name(self) -> str:
        """The name of it, as `Reconfiguration.way`."""
        return "beside the stream" if self.beside else "in place" if self.in_place else "restart"

    @property
    def line(self) -> str:
        """Describe it."""
        if self.beside:
            return (
                f"beside the stream{self.more.words}: a copy of the state is changed while the "
                "query runs, and catches up with it; then the driver ends the query, compares "
                "both, and starts it. If that fails: in place; if that fails, too: by a restart"
            )
        if self.in_place:
            return (
                "in place: the driver runs on, and ends and starts the query alone; if that "
                f"fails: by a restart. Not beside the stream: {self.why_in_place}"
            )
        return f"by a restart of the driver: {self.why}"


def way_of(state: State, status: Status, queries: Iterable[str], more: More = NO_MORE) -> Way:
    """The way for a change of these queries.

    Args:
        more: the executors that may be added for it.
    """
    if state.standstill == "restart":
        return Way(False, "state.standstill = 'restart' is declared")
    queries, known = tuple(queries), status.in_place
    if known is None:
        return Way(
            False, "the driver is of an older release, which changes state at its start alone"
        )
    for query in queries:
        if query not in known:
            why = "was not started by PySpark, so the driver can't start it again"
            return Way(False, f"query {query!r}: {why}")
        if (reason := known[query]) is not None:
            return Way(False, f"query {query!r}: {reason}")
    within = state.within * _OF_WITHIN
    asked = Limits(*(state.beside_rows, state.replay, within), executors=more.target, had=more.had)
    return Way(True, None, asked, _why_in_place(state, status, queries, asked), more)


def _why_in_place(
    state: State, status: Status, queries: Sequence[str], asked: Limits
) -> str | None:
    """Why these queries are not changed beside the stream, in words; None: they are, as far as is
    known before it is tried."""
    known = status.beside
    if known is None:
        return "the driver is of an older release, which does not do that"
    kept = {each.name: each.state for each in status.queries if each.state is not None}
    for query in queries:
        why = known.get(query, "the driver has not looked at it")
        if query in kept and why is None:
            rows, operators = kept[query].rows, kept[query].operators
            if rows is not None:
                why = limits.why_not_worth(rows, asked)
            why = why or limits.why_not_replayed(operators, state.replay)
            if not asked.executors:
                why = why or _why_too_busy(status, query, asked.busiest)
        if why is not None:
            return f"query {query!r}: {why}"
    return None


def _why_too_busy(status: Status, query: str, busiest: float) -> str | None:
    """Why a query has nothing to spare for a copy, as the driver will see it; None: it has, or that
    is not known yet."""
    interval = next((q.interval_ms for q in status.queries if q.name == query), None)
    took = [
        batch.processing_ms / 1000
        for batch in status.batches
        if batch.query == query and not batch.failed and not batch.cold
    ]
    if interval is None or not took:
        return None
    return limits.why_too_busy(took[-_RECENT:], interval / 1000, busiest)
