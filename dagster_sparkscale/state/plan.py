"""What a change of state partitions would be, or why there is none: told before anything is
stopped. Pure.

What must not change: what is not known never counts as fine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.waves import recommend
from dagster_sparkscale.driver.spark.releases import is_before
from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.in_force.slots import lacking_for
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.state import in_progress, last_change, stateful, untold
from dagster_sparkscale.observe.status import Query, QueryState, Status
from dagster_sparkscale.remedy import Remedy, WithRemedy
from dagster_sparkscale.state.cost import Stores, seconds_of_change
from dagster_sparkscale.state.more import more_of
from dagster_sparkscale.state.partition_change import OfQuery, PartitionChange
from dagster_sparkscale.state.way import way_of

LEAST_SPARK = "4.2"
"""The first Spark that changes the partitions of state."""
GOOD = ("changed", "unchanged")
"""Outcomes by which a query has the number that was planned."""


@dataclass(frozen=True)
class Asked:
    """What somebody asks for."""

    partitions: int | None = None
    """None: what is declared, or else what is recommended."""
    query: str | None = None
    """None: whichever has another number than it should."""
    again: bool = True
    """Whether to try what did not go well when it was tried last. A person may have mended the
    cause; a maintenance window would restart the stream for nothing each time."""


@dataclass(frozen=True)
class Barred:
    """The change can't be made, or nobody knows whether it can; nothing was touched."""

    why: str


@dataclass(frozen=True)
class Settled:
    """The partitions need no change."""

    why: str


Aim = Barred | Settled | PartitionChange


class _No(Exception):
    """Why it is refused."""


def aim(
    stream: Stream,
    driver: Driver | None,
    status: Status | None,
    asked: Asked,
    *,
    id: str,
    now: float,
) -> Aim:
    """What is to be done about the state of `stream`.

    Args:
        driver: the newest driver of the stream.
        status: what that one's agent said, with all batches that it keeps; None: it gave no
            answer.
        id: tells the plan from others.
        now: seconds since the epoch.
    """
    wanted, barred = [], []
    try:
        state = _declared(stream, status)
        answer = _answering(stream, driver, status)
        for query in _meant(stream.name, answer, asked.query):
            try:
                wanted.append(_wanted(stream, state, answer, query, asked))
            except _No as why:  # which bars no other query
                barred.append(str(why))
        changes = [each for each in wanted if each.after != each.before]
        if changes:
            longest = _longest(state, answer)
    except _No as why:
        return Barred(str(why))
    if not changes and barred:
        return Barred("; ".join(dict.fromkeys(barred)))
    if not changes:
        has = [f"query {q.query!r} has {q.before} partitions already, as {q.why}" for q in wanted]
        return Settled("; ".join(has))
    chosen, left = _of_one_number(changes)
    names = tuple(each.query for each in chosen)
    plan = StatePlan(id, chosen[0].after, state.key_groups, state.plain_hash, names)
    reverted = _reverted(state, asked)
    assert driver is not None
    way = way_of(state, answer, names, more_of(stream, driver, answer.requested, now))
    chosen, left = (
        tuple(_with_seconds(each, stream, answer, way.name) for each in some)
        for some in (chosen, left)
    )
    return PartitionChange(plan, chosen, left, tuple(barred), reverted, longest, way)


def _with_seconds(each: OfQuery, stream: Stream, status: Status, way: str) -> OfQuery:
    """One query with the seconds that its change may take."""
    slots = (status.registered or 0) * stream.tasks_at_a_time
    stores, earlier = Stores.of(each.operators, slots), last_change(status, each.query, way)
    last = last_change(status, each.query)
    then = None if last is None else last.rows
    rows = then if each.rows is None else each.rows
    seconds = seconds_of_change(rows, each.before, each.after, stores, earlier, way)
    return replace(each, seconds=seconds, rows_then=then)


def _declared(stream: Stream, status: Status | None) -> State:
    if stream.state is not None:
        return stream.state
    if stream.kind != "structured":
        raise _No(f"{stream.name!r} is a DStreams application: its state has no partitions to set")
    raise _No(
        f"{stream.name!r} declares no state: give it state=State("
        f"key_groups={_remembered(status)}), load the code, and restart the stream, if it was "
        "started without"
    )


def _remembered(status: Status | None) -> int:
    """The key groups that a checkpoint has already, or else some that suit most streams."""
    queries = () if status is None else status.queries
    return next((q.state.key_groups for q in queries if q.state and q.state.key_groups), 128)


def _answering(stream: Stream, driver: Driver | None, status: Status | None) -> Status:
    if driver is None or driver.state in (DriverState.STOPPED, DriverState.FAILED):
        now = "not started" if driver is None else driver.state.value
        then = ", and try again once it has completed a batch"
        raise _No(WithRemedy(f"{stream.name!r} is {now}: ", Remedy.START, then))
    if status is None or driver.state is not DriverState.RUNNING:
        raise _No(
            f"{stream.name!r}: driver {driver.epoch} is {driver.state.value}, and its agent has "
            "not answered: try again when it does"
        )
    if status.reconfiguring is not None:
        raise _No(f"{in_progress(status.reconfiguring)}: wait until it is over")
    if status.phase != "running":
        raise _No(f"{stream.name!r}: its driver is {status.phase}: try again when it runs")
    if not status.tells_state:
        raise _No(
            f"{stream.name!r}: its driver was started by an older release of dagster_sparkscale, "
            "which tells nothing of state: restart the stream, and try again"
        )
    if status.spark_version is None:
        raise _No("its driver has not told its release of Spark: try again in a minute")
    if is_before(LEAST_SPARK, status.spark_version):
        raise _No(
            f"changing the partitions of state needs Spark {LEAST_SPARK} or newer; this is Spark "
            f"{status.spark_version}"
        )
    return status


def _meant(stream: str, status: Status, query: str | None) -> Sequence[Query]:
    """The queries that are asked about, all of which keep state, or have not told."""
    active = [each.name for each in status.queries if each.active]
    if not active:
        raise _No("no query is active: try again when one has completed a batch")
    if query is not None and query not in active:
        known = ", ".join(map(repr, active))
        raise _No(f"query = {query!r}: {stream!r} has none of that name; active: {known}")
    every = (*(each for each, _ in stateful(status)), *untold(status))
    meant = [each for each in every if query in (None, each.name)]
    if not meant:
        whose = "none of its queries keeps" if query is None else f"query {query!r} keeps no"
        raise _No(f"{stream!r}: {whose} state: there is nothing to reconfigure")
    return meant


def _wanted(stream: Stream, state: State, status: Status, query: Query, asked: Asked) -> OfQuery:
    """What one query has, and should have.

    Raises:
        _No: the query can't be changed, or nobody knows whether it can.
    """
    name, kept = query.name, query.state
    if kept is None:
        raise _No(
            f"query {name!r} has not told yet whether it keeps state: try again when it has "
            "completed a batch"
        )
    if kept.unchangeable is not None:
        raise _No(f"query {name!r}: {kept.unchangeable}")
    if kept.provider is None:
        raise _No(
            f"query {name!r} has not told by which provider its state is kept: try again after its "
            "next batch; if it goes on so, it has no checkpoint of its own: give it one"
        )
    if why := layout.why_not_by(kept.provider):  # of a driver that has not looked for that
        raise _No(f"query {name!r}: {why}")
    if kept.partitions is None:
        raise _No(f"query {name!r} has not told its partitions: try again after its next batch")
    if kept.key_groups not in (None, state.key_groups):
        raise _No(
            f"state.key_groups = {state.key_groups}: the checkpoint of query {name!r} has "
            f"{kept.key_groups}, and their number is fixed once the query has run: declare "
            f"key_groups={kept.key_groups}, or begin with a new checkpoint"
        )
    if asked.partitions is not None:
        after, why = asked.partitions, "asked for"
    elif state.partitions is not None:
        after, why = state.partitions, "declared"
    else:
        after, why = _recommended(stream, state, status, query.name, kept)
    found = OfQuery(
        query=name,
        before=kept.partitions,
        after=after,
        why=why,
        moves=_moves(state, kept.partitions, after),
        rows=kept.rows,
        bytes=kept.bytes,
        operators=kept.operators,
    )
    if found.after != found.before:
        if why_not := state.groups.why_not(after, state.plain_hash):
            raise _No(f"partitions = {after}: {why_not}")
        if lacking := lacking_for(stream, query, after):
            raise _No(f"partitions = {after}: {lacking}")
        if not asked.again:
            _refuse_to_repeat(status, found)
    return found


def _recommended(
    stream: Stream, state: State, status: Status, query: str, kept: QueryState
) -> tuple[int, str]:
    """How many partitions a query should have, and why."""
    seen = evaluate(status, window=stream.window, batch_interval=stream.batch_interval)
    found = recommend(
        state.groups,
        partitions=kept.partitions,
        rows=kept.rows,
        size=kept.bytes,
        cores=stream.tasks_at_a_time,
        bounds=stream.bounds,
        executors=status.requested,
        ratio=seen.ratio,
        rows_per_partition=state.rows_per_partition,
    )
    reasons = "; ".join(found.reasons)
    if kept.rows is None and not found.change:
        raise _No(
            f"query {query!r} has not told the rows of its state, so nothing can be recommended: "
            "try again after its next batch, or say how many partitions are wanted"
        )
    assert found.partitions is not None  # it knows how many there are
    return found.partitions, f"recommended: {reasons}"


def _moves(state: State, before: int, after: int) -> str:
    # What is no number of partitions is refused in words of its own.
    return str(state.groups.moves(before, after)) if min(before, after) > 0 else ""


def _refuse_to_repeat(status: Status, each: OfQuery) -> None:
    last = last_change(status, each.query)
    if last is None or last.outcome in GOOD or last.restart:
        return
    if (last.before, last.after) == (each.before, each.after):
        raise _No(
            f"query {each.query!r}: the last try, to {last.after} partitions, was "
            f"{last.outcome}: {last.reason}. When that is mended, run reconfigure_state by hand"
        )


def _longest(state: State, status: Status) -> float:
    """Seconds that the longest of the last batches took.

    Raises:
        _No: as long as a whole change may take. Were the one in progress cut off, the driver that
            was to change the state would run it again first, and refuse to.
    """
    active = {query.name: query for query in status.queries if query.active}
    took = [batch.processing_ms for batch in status.batches if batch.query in active]
    took += [query.running_ms or 0 for query in active.values()]
    longest: float = max(took, default=0) / 1000
    if longest >= state.within:
        raise _No(
            f"state.within = {state.within:g} s: its last batches took up to {longest:.0f} s, and "
            "the one in progress would be cut off: declare more than twice as much"
        )
    return longest


def _of_one_number(changes: Sequence[OfQuery]) -> tuple[tuple[OfQuery, ...], tuple[OfQuery, ...]]:
    """The queries that get the number of the largest of them, as a plan has one; and the others."""
    ordered = sorted(changes, key=lambda each: (-(each.rows or 0), each.query))
    after = ordered[0].after
    chosen = tuple(each for each in changes if each.after == after)
    return chosen, tuple(each for each in ordered if each.after != after)


def _reverted(state: State, asked: Asked) -> str | None:
    """What changes back what was asked for, unless it is what is declared."""
    if asked.partitions in (None, state.partitions):
        return None
    window = None
    if state.maintenance is not None:
        window = f"the window at {state.maintenance!r} ({state.timezone or 'UTC'})"
    if state.partitions is None:
        why = "no partitions are declared"
        return window and f"{why}: {window} gives it those that are recommended then"
    back = "a reconfiguration without a number goes back to it"
    if window is not None:
        back = f"{window} changes it back"
    return (
        f"declared is {state.partitions}: {back}; declare partitions={asked.partitions} to keep it"
    )
