"""How far a stream is behind what it reads from Kafka, as its asset's Overview shows it. Pure."""

from collections.abc import Mapping

from dagster_sparkscale.capability import Situation
from dagster_sparkscale.markdown import INLINE, fitted, fitting
from dagster_sparkscale.observe.status import Query, Status

_NAME = 60
_TOPIC = 120
_WHY = 250


def sections(situation: Situation) -> Mapping[str, str]:
    """How far each query is behind."""
    return {"kafka": of_queries(situation.status)}


def of_queries(status: Status | None) -> str:
    """The partitions that are furthest behind as a table, and below it why a lag is not known.
    Empty where no query is known to read from Kafka."""
    if status is None:
        return ""
    active = [query for query in status.queries if query.active]
    lines = [line for query in active for line in _lines(query)]
    unknown = [
        fitted(f"{query.name}: lag unknown: {query.lag_unknown}", _WHY)
        for query in active
        if query.lag_unknown is not None
    ][:1]
    if not lines:
        return "\n\n".join(unknown)
    text = "".join(f"\n\n{each}" for each in unknown)
    table = fitting("query|partition|records behind", lines, "partitions", INLINE - len(text))
    return f"{table}{text}"


def _lines(query: Query) -> list[str]:
    told = query.partitions_behind
    if told is None:
        return []
    name = fitted(query.name, _NAME)
    late = [f"|{name} |{fitted(each, _TOPIC)} |{lag:,}|" for each, lag in told.items() if lag > 0]
    return late or [f"|{name} |all|0|"]
