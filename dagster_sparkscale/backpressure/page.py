"""What limits the sources of a stream, as its asset's Overview shows it. Pure."""

from collections.abc import Mapping, Sequence

from dagster_sparkscale.capability import Situation
from dagster_sparkscale.in_force.limits import LimitInForce, not_as_declared
from dagster_sparkscale.markdown import INLINE, fitted, fitting
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.status import Limit, Query, Status
from dagster_sparkscale.quantities import DASH, number

_NAME = 60
_REASON = 200
_BY = {
    "estimator": "estimate",
    "max_rate": "max_rate",
    "set": "set",
    "start": "to begin with",
    "nobody": "",
}
_ESTIMATED = ("estimator", "max_rate")


def sections(situation: Situation) -> Mapping[str, str]:
    """What limits the sources, and which limits are not as they are declared."""
    record = situation.driver.record if situation.driver is not None else None
    return {
        "limits": of_sources(situation.status),
        "limits that were set": set_by(not_as_declared(situation.stream, record)),
    }


def numbers(situation: Situation, minute: Minute) -> Mapping[str, float | None]:
    """What a stream with backpressure might take."""
    if situation.stream.backpressure is None:
        return {}
    return {"7. limit (records/s)": minute.limit}


def of_sources(status: Status | None) -> str:
    """The limit of each source as a table, and how the estimator came to the lowest of them. Empty
    where nothing limits any."""
    if status is None or all(each.rate is None and not each.estimator for each in status.limits):
        return ""
    queries = {query.name: query for query in status.queries}
    lines = [_line(each, queries.get(each.query or "")) for each in status.limits]
    estimated = [each for each in status.limits if each.by in _ESTIMATED and each.reason]
    lowest = min(estimated, key=lambda each: each.rate or 0.0, default=None)
    below = ""
    if lowest is not None:
        below = "\n\n" + fitted(f"{lowest.source}: {lowest.reason}", _REASON)
    head = "source|limit (records/s)|took (records/s)"
    return fitting(head, lines, "sources", INLINE - len(below)) + below


def set_by(limits: Sequence[LimitInForce]) -> str:
    """The limits that are not as they are declared as a table, with who set each. Empty where all
    are."""
    lines = [
        f"|{fitted(each.name, _NAME)} |{_in_force(each)}|{fitted(each.in_words, _REASON)} |"
        for each in limits
    ]
    return fitting("limit|number|set", lines, "limits") if lines else ""


def _in_force(limit: LimitInForce) -> str:
    return _number(limit.value) if limit.records is None else limit.number


def _line(limit: Limit, query: Query | None) -> str:
    rate = "none" if limit.rate is None else _number(limit.rate)
    if by := _BY.get(limit.by, fitted(limit.by, 20)):
        rate += f", {by}"
    # That of an estimator is the estimate.
    if limit.estimate is not None and limit.by != "estimator":
        rate += f", estimate {_number(limit.estimate)}"
    took = _took(limit, query)
    if limit.taken is not None:
        took += ", heeded" if limit.taken else ", **not heeded**"
    return f"|{fitted(limit.source, _NAME)} |{rate} |{took} |"


def _took(limit: Limit, query: Query | None) -> str:
    """Records per second of its last batch."""
    if limit.records is None or query is None or not query.interval_ms:
        return DASH
    return _number(1000 * limit.records / query.interval_ms)


def _number(value: float | None) -> str:
    return DASH if value is None else number(value)
