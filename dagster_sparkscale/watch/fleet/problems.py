"""What is wrong with streams that somebody should be told of, and since when. Pure.

A problem that can't be told of any more stands as it was last seen: that a stream which does not
answer was lagging is no sign that it has caught up.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, get_args

from pydantic import FiniteFloat
from pydantic.dataclasses import dataclass

from dagster_sparkscale.markdown import shortened
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.watch.fleet.rows import ORPHAN, SETTLED, UNJUDGED, Row
from dagster_sparkscale.watch.fleet.verdict import verdict

Problem = Literal["failed", "given_up", "unhealthy", "losing_data", "lagging", "pinned", "orphaned"]
PROBLEMS: tuple[Problem, ...] = get_args(Problem)

UNTOLD_FOR = 3600.0
"""Seconds for which a problem stands that can't be told of any more, and after which data that is
lost again is news."""
TEXT = 200
"""Characters of a problem's text at most."""

_CHECKS: Mapping[Problem, Health] = {
    "losing_data": Health.NO_DATA_LOST,
    "lagging": Health.LAG_WITHIN_LIMIT,
    "pinned": Health.BELOW_MAXIMUM,
}
_LAPSE: tuple[Problem, ...] = ("lagging", "pinned")


@dataclass(frozen=True)
class Standing:
    """A problem that a stream has."""

    since: FiniteFloat
    """When it was first seen, seconds since the epoch: tells it from the same problem, later."""
    seen: FiniteFloat
    """When it was last seen; of lost data, when more of it was."""
    text: str
    mark: str = ""
    """How much was lost, where it is that."""
    health: str = ""
    """The stream's verdict when it was last seen, of `unhealthy`: its problem in a word."""


Problems = dict[Problem, Standing]


def problems(row: Row, before: Mapping[Problem, Standing]) -> Problems:
    """The problems of a stream, after those that it had before."""
    now, found = row.seen_at, _found(row)
    standing: Problems = {}
    for problem in PROBLEMS:
        known = before.get(problem)
        if known is not None:
            # Not ahead of the clock, which may have been set back.
            known = replace(known, seen=min(known.seen, now))
        if known is not None and problem not in found and _untold(problem, row):
            if problem not in _LAPSE or now - known.seen < UNTOLD_FOR:
                standing[problem] = known
        elif problem in found:
            text, mark = found[problem]
            health = verdict(row) if problem == "unhealthy" else ""
            if known is None or (mark != known.mark and now - known.seen >= UNTOLD_FOR):
                standing[problem] = Standing(now, now, text, mark, health)
            else:
                seen = known.seen if mark and mark == known.mark else now
                standing[problem] = Standing(known.since, seen, text, mark, health)
    if "given_up" in standing:
        standing.pop("failed", None)
    return standing


def is_over(problem: Problem, standing: Standing, now: float) -> bool:
    """Whether it is remembered, and no problem any more: no more data was lost for a while."""
    return problem == "losing_data" and now - standing.seen >= UNTOLD_FOR


def _found(row: Row) -> dict[Problem, tuple[str, str]]:
    """What is wrong now: a text of each, and its mark."""
    if row.state in ("stopped", "not started"):
        return {}
    if row.state == ORPHAN:
        return {"orphaned": (shortened(row.reason, TEXT), "")}
    found: dict[Problem, tuple[str, str]] = {}
    if row.state == "failed":
        found["given_up" if row.gave_up else "failed"] = (shortened(row.reason, TEXT), "")
    failing = {each.check: each for each in row.failing}
    urgent = [each for each in row.failing if each.urgent]
    if urgent and row.state != "failed":
        found["unhealthy"] = (shortened(urgent[0].text, TEXT), "")
    for problem, check in _CHECKS.items():
        one = failing.get(check.value)
        if one is not None and not one.urgent:
            found[problem] = (shortened(one.text, TEXT), one.mark)
    return found


def _untold(problem: Problem, row: Row) -> bool:
    """Whether nothing can be told of a problem now."""
    if row.state in ("stopped", "not started", ORPHAN):
        return False
    if problem in _CHECKS:
        return _CHECKS[problem].value in row.untold
    if problem == "failed":
        # One that starts again may fail again: it is over when it has run for a while.
        if row.state == "running" and row.since is not None:
            return row.looping or row.seen_at - row.since < SETTLED
        return row.state in ("starting", "unknown")
    if problem == "given_up":
        # Given up once, it stays so until somebody starts it, and that driver runs: one that only
        # was launched may end as the last one did, or have to undo first what that one has left.
        return row.state in ("failed", "starting", "unknown")
    return problem == "unhealthy" and row.untold == UNJUDGED
