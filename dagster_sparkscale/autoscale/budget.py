"""A budget's cores go to the streams that want them, by priority. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dagster_sparkscale.declare.budget import Budget, named
from dagster_sparkscale.declare.stream import Stream

_NAMED = 3
"""Streams that a reason names, at most."""


@dataclass(frozen=True)
class Share:
    """What one stream has of a budget, and what it wants."""

    stream: Stream
    executors: int
    """Executors that it has, or that are reserved for it."""
    target: int | None = None
    """Executors that it wants; None: as many as it has."""

    @property
    def cores(self) -> int:
        return self.executors * self.stream.executor_cores

    @property
    def extra(self) -> int:
        """Executors that it wants beside those that it has."""
        return max(0, (self.target or 0) - self.executors)


@dataclass(frozen=True)
class Cut:
    """A stream that can't have all it wants."""

    target: int
    """What it can have; as many as it has where nothing is left."""
    why: str
    """The budget that is used up, and who has its cores."""


def cuts(budget: Budget, shares: Sequence[Share]) -> dict[str, Cut]:
    """The streams that can't have all executors that they want, by name.

    The highest priority is served first; among equals the one that has the fewest cores. Cores
    that are too few for a stream of a higher priority stay free for it: those of a lower one would
    else take them as they come.
    """
    used: Counter[str] = Counter()
    for share in shares:
        for scope in budget.scopes(share.stream):
            used[scope] += share.cores
    free = {scope: budget.most(scope) - used[scope] for scope in used}
    found: dict[str, Cut] = {}
    has = {share.stream.name: share.cores for share in shares}
    reserved: dict[str, int] = {}
    """The highest priority that waits for cores of a scope."""
    for share in sorted(shares, key=_order):
        stream, cores = share.stream, share.stream.executor_cores
        if not share.extra:
            continue
        scopes = budget.scopes(stream)
        room = {
            scope: 0 if stream.priority < reserved.get(scope, stream.priority) else free[scope]
            for scope in scopes
        }
        more = min([share.extra, *(max(0, left) // cores for left in room.values())])
        for scope in scopes:
            free[scope] -= more * cores
        has[stream.name] += more * cores
        if more == share.extra:
            continue
        lacking = (share.extra - more) * cores
        tight = min(room, key=lambda scope: room[scope])
        reserved[tight] = max(stream.priority, reserved.get(tight, stream.priority))
        inside = [each.stream.name for each in shares if tight in budget.scopes(each.stream)]
        others = {name: has[name] for name in inside if name != stream.name and has[name]}
        found[stream.name] = Cut(
            share.executors + more,
            f"the budget of {named(tight)} is {budget.most(tight)} cores, "
            f"{has[stream.name] + sum(others.values())} are taken{_who(others)}, and "
            f"{lacking} more {'is' if lacking == 1 else 'are'} wanted",
        )
    return found


def _order(share: Share) -> tuple[int, int, str]:
    return -share.stream.priority, share.cores, share.stream.name


def _who(cores: Mapping[str, int]) -> str:
    """The streams that have these cores, those with most first; empty for nobody."""
    if not cores:
        return ""
    names = sorted(cores, key=lambda name: (-cores[name], name))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" ({', '.join(f'{name} {cores[name]}' for name in names[:_NAMED])}{more})"
