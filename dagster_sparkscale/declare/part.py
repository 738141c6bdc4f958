"""A part of what is declared brings its own consequences: settings, checks, drift, pinned places.

`Stream.parts` has those of a stream; `streams.py` alone names all kinds of them. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.policies import AutoscalePolicy


@dataclass(frozen=True)
class Drift:
    """How a field is shown that a restart changes."""

    only: str = ""
    """How far a restart changes it; empty: wholly."""
    absent: str | None = None
    """What it is where it is not declared; None: it is not set then."""
    limit: bool = False
    """Whether it is a number that limits a source: shown also where it is new or gone."""
    alone: bool = False
    """Whether its change stands for those of all fields below it."""
    late: bool = False
    """Whether an older release did not remember it: where it is missing, it is not known."""


class StreamOfParts(Protocol):
    """A stream as its parts see it."""

    @property
    def name(self) -> str: ...
    @property
    def key_prefix(self) -> tuple[str, ...]: ...
    @property
    def kind(self) -> str: ...
    @property
    def batch_interval(self) -> float: ...
    @property
    def executor_cores(self) -> int: ...
    @property
    def spark_conf(self) -> Mapping[str, str]: ...
    @property
    def checkpoint_location(self) -> str | None: ...
    @property
    def autoscale(self) -> AutoscalePolicy | None: ...
    @property
    def parts(self) -> "tuple[Part, ...]": ...
    @property
    def bounds(self) -> Bounds: ...
    @property
    def tasks_at_a_time(self) -> int: ...
    @property
    def pinned(self) -> int: ...


class Part:
    """A part that has no consequences: what one has, it overrides."""

    reserved: ClassVar[Mapping[str, str]] = {}
    """Spark settings that it makes, and by which field or operation. One that ends in a dot is the
    beginning of others."""

    drifts: ClassVar[Mapping[str, Drift]] = {}
    """How drift shows its fields. One that ends in a dot is the beginning of others."""

    tunable: ClassVar[bool] = False
    """Whether it declares limits that can be retuned."""

    @property
    def pinned(self) -> int:
        """How many places of tasks it takes for good."""
        return 0

    def least_executors(self, stream: StreamOfParts, pinned: int) -> int:
        """Fewest executors while so many places are pinned, where no minimum is declared."""
        return 1

    def why_so_many(self, stream: StreamOfParts) -> str:
        """What `least_executors` comes of, as it goes on in an error; empty: nothing to say."""
        return ""

    def needs(self, stream: StreamOfParts) -> tuple[int, str] | None:
        """Executors without which the stream can't run at all, whatever minimum is declared, and
        why; None: it may be slow, but it runs."""
        return None

    def check(self, stream: StreamOfParts) -> None:
        """Refuse what contradicts the rest of the stream, or has no effect in it.

        Raises:
            ValueError: the text names the field, its value, and what would be right.
        """

    def defaults(self, stream: StreamOfParts) -> dict[str, str]:
        """Spark settings over which those of the cluster and of the user win."""
        return {}

    def settings(self, stream: StreamOfParts) -> dict[str, str]:
        """Spark settings that win over those of the cluster and of the user."""
        return {}

    def declared(self, stream: StreamOfParts) -> dict[str, str]:
        """What only a restart brings to a driver, by field."""
        return {}
