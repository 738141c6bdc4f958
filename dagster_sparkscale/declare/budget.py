"""How many cores the streams of one cluster may have together. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from dagster_sparkscale.declare.declaration import Count, Declaration, DeclarationError
from dagster_sparkscale.declare.faults import shown
from dagster_sparkscale.declare.stream import Stream


class Budget(Declaration):
    """The cores that the executors of a cluster's streams may have together.

    The autoscaler adds no executor beyond it: of the streams that want more, the one of the highest
    `priority` is served first. Nothing is taken from a stream for another one, and what a person
    asks for is carried out.
    """

    cores: Count | None = None
    """Most cores of all streams of the cluster. None: as many as the cluster has."""

    groups: Mapping[str, Count] = Field(default_factory=dict)
    """Most cores of the streams of a group, by `Stream.group`. A stream without one is in Dagster's
    group `default`."""

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        if self.cores is None and not self.groups:
            yield "cores: give it, or groups; this budget bounds nothing"

    def scopes(self, stream: Stream) -> tuple[str, ...]:
        """What bounds a stream: its group where that has a budget, and the cluster."""
        group = group_of(stream)
        return (*([group] if group in self.groups else []), *([CLUSTER] if self.cores else []))

    def most(self, scope: str) -> int:
        """The cores of a group, or of the cluster."""
        if scope == CLUSTER:
            assert self.cores is not None
            return self.cores
        return self.groups[scope]


CLUSTER = ""
"""The scope of all streams. No group of Dagster's has an empty name."""
DEFAULT_GROUP = "default"
"""Dagster's name of the group of assets that declare none."""


def group_of(stream: Stream) -> str:
    return stream.group or DEFAULT_GROUP


def named(scope: str) -> str:
    """A scope, for people."""
    return f"group {scope!r}" if scope else "the cluster"


def check_budget(budget: object, streams: Sequence[Stream]) -> None:
    """Refuse a budget that its streams can't live within.

    Raises:
        DeclarationError: it is no budget, a group has no stream, or the fewest executors of the
            streams take more than there is.
    """
    if not isinstance(budget, Budget):
        raise DeclarationError(f"budget = {shown(budget)}: must be a Budget, or None")
    known = sorted({group_of(stream) for stream in streams})
    for group in budget.groups:
        if group not in known:
            raise DeclarationError(
                f"budget: groups: {group!r}: no stream is in this group; must be one of "
                f"{', '.join(known)}"
            )
    least: Counter[str] = Counter()
    for stream in streams:
        for scope in budget.scopes(stream):
            least[scope] += stream.bounds.minimum * stream.executor_cores
    for scope, cores in least.items():
        if cores > budget.most(scope):
            field = f"groups: {scope!r}" if scope else "cores"
            raise DeclarationError(
                f"budget: {field} = {budget.most(scope)}: must be at least {cores}, which the "
                f"fewest executors of the streams of {named(scope)} take"
            )
