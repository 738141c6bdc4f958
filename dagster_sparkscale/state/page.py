"""The state of a stream's queries, as its asset's Overview shows it. Pure."""

from collections.abc import Iterator, Mapping

from dagster_sparkscale.capability import Situation
from dagster_sparkscale.declare.key_groups import skew
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.markdown import ARROW, INLINE, clock, fitted, fitting
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.state import (
    at_step,
    in_progress,
    last_change,
    partitions,
    rows,
    rows_of_partitions,
    stateful,
    stood_still,
)
from dagster_sparkscale.observe.status import QueryState, Reconfiguration, Status
from dagster_sparkscale.quantities import DASH

_NAME = 60
_SENTENCE = 300
_NOTE = 200
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def sections(situation: Situation) -> Mapping[str, str]:
    """The state of each query, and the last change of it."""
    return {"query state": of_queries(situation.status)}


def numbers(situation: Situation, minute: Minute) -> Mapping[str, float | None]:
    """How much state a stream has that declares it."""
    status = situation.status
    if situation.stream.state is None or status is None:
        return {}
    return {"5. state (rows)": rows(status), "6. state (partitions)": partitions(status)}


def busy(status: Status) -> str | None:
    """Say that the state of a query is being changed, and how far that is."""
    return None if status.reconfiguring is None else in_progress(status.reconfiguring)


def of_queries(status: Status | None) -> str:
    """The state of each query as a table, and the last change of it in a sentence. Empty where
    none is known to keep state."""
    if status is None or not (kept := stateful(status)):
        return ""
    lines = [
        f"|{fitted(query.name, _NAME)} |{_line(state, last_change(status, query.name))}|"
        for query, state in kept
    ]
    below = [fitted(f"{q.name}: {s.note}", _NOTE) for q, s in kept if s.note is not None][:1]
    change = last_change(status)
    if change is not None:
        below.append(fitted(sentence(change).replace("->", ARROW), _SENTENCE))
    text = "".join(f"\n\n{each}" for each in below)
    # Two columns: Overview cuts off on the right what does not fit, the sentence above it as well.
    table = fitting("query|rows, memory, partitions", lines, "queries", INLINE - len(text))
    return f"{table}{text}"


def of_state(status: Status, declared: State | None) -> Iterator[str]:
    """The state of each query in a line, and in another what is being done to it, or was last."""
    for query, state in stateful(status):
        line = f"{query.name!r}: {_line(state, last_change(status, query.name), ' rows')}"
        wanted = None if declared is None else declared.partitions
        if wanted not in (None, state.partitions):
            line += f"; declared: {wanted}, which a reconfiguration without a number goes back to"
        yield line
    if (doing := status.reconfiguring) is not None:
        runs = any(each.active and each.name == doing.query for each in status.queries)
        yield (
            f"{doing.query!r}: {_known(doing.before)} -> {_known(doing.after)} partitions since "
            f"{clock(doing.began_at)}: {at_step(doing)}; "
            f"the query {'runs' if runs else 'stands still'}"
        )
    elif (change := last_change(status)) is not None:
        yield sentence(change)


def sentence(change: Reconfiguration) -> str:
    """What came of a change: when, from how many partitions to how many, and how long it took."""
    numbers = f"{_known(change.before)} -> {_known(change.after)} partitions"
    took = f" after {sum(change.seconds.values()):.1f} s" if change.seconds else ""
    reason = f": {change.reason}" if change.reason else ""
    at = clock(change.began_at)
    if change.way == "restart":
        took += ", by a restart" if change.outcome == "changed" else ""
    elif still := stood_still(change):
        took += f", stood still for {still:.1f} s, {change.way}"
    if change.beside is not None:
        took += f" (not beside the stream, as {change.beside})"
    return f"last reconfigured at {at}: {change.query!r}, {numbers}, {change.outcome}{took}{reason}"


def _line(state: QueryState, change: Reconfiguration | None, unit: str = "") -> str:
    rows = DASH if state.rows is None else f"{state.rows:,}"
    said = [f"{rows}{unit} in {_size(state.bytes)}", f"{_known(state.partitions)} partitions"]
    if state.key_groups is not None:
        said.append(f"{state.key_groups} key groups")
    if (skews := _skews(change)) != DASH:
        said.append(f"skew {skews}")
    return ", ".join(said)


def _skews(change: Reconfiguration | None) -> str:
    """The skews of partitions and of key groups: the largest over the mean, when last counted."""
    if change is None:
        return DASH
    of_partitions, of_groups = skew(rows_of_partitions(change)), skew(change.group_rows)
    if of_partitions is None:
        return DASH
    more = "" if of_groups is None else f" (key groups {of_groups:.2f})"
    return f"{of_partitions:.2f}{more}"


def _known(number: int | None) -> str:
    return DASH if number is None else str(number)


def _size(size: int | None) -> str:
    if size is None:
        return DASH
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}" if value < 1000 else f"{value:.0f} {_UNITS[unit]}"
