"""The receivers of a stream on its asset's Overview. Pure."""

from collections.abc import Mapping, Sequence

from dagster_sparkscale.capability import Situation
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.markdown import ARROW, INLINE, clock, fitted, fitting
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.receivers import spread
from dagster_sparkscale.observe.status import Receiver, Relaunch, Status
from dagster_sparkscale.quantities import DASH, number

RELAUNCHES = 10

_NAME = 40
_HOST = 60
_ERROR = 160
_CAUSE = 20
_NOWHERE = "**nowhere**"


def sections(situation: Situation) -> Mapping[str, str]:
    """Show where the receivers run, and which were away."""
    status = situation.status
    return {"receivers": of_receivers(status), "receivers away": of_relaunches(status)}


def numbers(situation: Situation, minute: Minute) -> Mapping[str, float | None]:
    """How many receivers run, of a stream that declares some."""
    stream = situation.stream
    if not isinstance(stream, DStream) or not stream.receivers:
        return {}
    return {"8. receivers": minute.receivers}


def news(status: Status) -> Mapping[str, str]:
    """The latest receiver that was away and runs again."""
    return {"receiver": last_relaunch(status)}


def of_receivers(status: Status | None) -> str:
    """Each receiver in a table, how many each executor has, and what one last failed of: one that
    is away, if any of these has failed. Empty where there are none, or that is not known."""
    if status is None or not status.receivers:
        return ""
    below = f"\n\nreceivers of executors: {fitted(spread(status) or DASH, 200)}"
    if failed := sorted(
        (each for each in status.receivers if each.error),
        key=lambda each: each.executor is not None,
    ):
        more = f" (and {len(failed) - 1} more have failed)" if len(failed) > 1 else ""
        said = f"last error of receiver {failed[0].stream_id}{more}: {failed[0].error}"
        below += f"\n\n{fitted(said, _ERROR)}"
    # One host says nothing where it is that of all.
    one_host = len({each.host for each in status.receivers}) == 1
    lines = [_line(each, status.now, one_host) for each in status.receivers]
    return fitting("receiver|executor|records/s", lines, "receivers", INLINE - len(below)) + below


def of_relaunches(status: Status | None) -> str:
    """The latest moves and relaunches of this driver, the newest first. Empty for none."""
    if status is None:
        return ""
    newest: Sequence[Relaunch] = sorted(status.relaunches, key=lambda each: -each.began_at)
    lines = [_away(each, status.now) for each in newest[:RELAUNCHES]]
    return fitting(
        "when\u00a0(UTC)|receiver|executors|away (s)", lines, f"of the last {len(lines)}"
    )


def last_relaunch(status: Status | None) -> str:
    """The latest receiver that was away and runs again, in words: news when it is another. Empty
    for none."""
    over = [each for each in status.relaunches if each.to_executor] if status is not None else []
    if not over:
        return ""
    last = max(over, key=lambda each: (each.began_at, each.stream_id))
    came_from = DASH if last.from_executor is None else last.from_executor
    return (
        f"receiver {last.stream_id}: executor {came_from} -> {last.to_executor} ({last.cause}, "
        f"{clock(last.began_at)})"
    )


def _line(receiver: Receiver, now: float, one_host: bool) -> str:
    place = _NOWHERE if receiver.executor is None else fitted(receiver.executor, _NAME)
    if receiver.host is not None and not one_host:
        place += f" on {fitted(receiver.host, _HOST)}"
    if receiver.since is not None:
        place += f" since {clock(receiver.since, now)}"
    if receiver.moving_to is not None:
        place += f" (on its way to {fitted(receiver.moving_to, _NAME)})"
    name = f"{receiver.stream_id}" + (f" {fitted(receiver.name, _NAME)}" if receiver.name else "")
    return f"|{name} |{place} |{_rate(receiver.rate)}|"


def _away(move: Relaunch, now: float) -> str:
    place = _NOWHERE if move.to_executor is None else fitted(move.to_executor, _NAME)
    if move.wanted is not None and move.to_executor not in (None, move.wanted):
        place += f" (sent to {fitted(move.wanted, _NAME)})"
    came_from = fitted(move.from_executor or DASH, _NAME)
    seconds = DASH if move.away_seconds is None else f"{move.away_seconds:.1f}"
    return (
        f"|{clock(move.began_at, now)}|{move.stream_id}"
        f"|{came_from} {ARROW} {place}, {fitted(move.cause, _CAUSE)} |{seconds}|"
    )


def _rate(value: float | None) -> str:
    return DASH if value is None else number(value)
