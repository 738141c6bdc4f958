"""What should happen to a stream, and why. Every decision, acted on or held, says so in words.

Pure.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol


class Decision(Protocol):
    """What every decision has; as text, it is what should happen in two or three words."""

    operation: ClassVar[str | None]
    """The name of the operation that carries it out; None: there is nothing to do."""

    @property
    def reason(self) -> str:
        """Why, for a person to read."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Change nothing."""

    operation: ClassVar[str | None] = None

    reason: str
    """Why, for a person to read."""
    pinned: bool = False
    """The policy would have scaled up, but the stream is at its maximum already."""
    broken: bool = False
    """The policy could not decide, for an error of its own."""
    gave_up: bool = False
    """The driver has failed, and nothing but a person starts another."""

    def __str__(self) -> str:
        return "hold"


@dataclass(frozen=True, slots=True)
class ScaleTo:
    """Set the absolute number of executors."""

    operation: ClassVar[str | None] = "rescale"

    target: int
    """Executors that the driver is to have."""
    reason: str
    """Why, for a person to read."""
    not_again_for: float = field(default=0.0, repr=False)
    """Seconds for which no more than `target` is asked for again by itself, as more did not help;
    0: the next decision is free."""

    def __str__(self) -> str:
        return f"{_SCALE_TO}{self.target}"


_SCALE_TO = "scale to "


def target_of(decision: str | None) -> int | None:
    """The target of a `ScaleTo`, by the text of it that a minute has stored; None: it is none."""
    if decision is None or not decision.startswith(_SCALE_TO):
        return None
    number = decision.removeprefix(_SCALE_TO)
    return int(number) if number.isascii() and number.isdigit() else None


@dataclass(frozen=True, slots=True)
class Move:
    """A receiver that is to run on another executor."""

    stream_id: int
    from_executor: str
    """Empty: it runs nowhere at the moment."""
    to_executor: str

    def __str__(self) -> str:
        place = self.from_executor or "none"
        return f"receiver {self.stream_id} from executor {place} to {self.to_executor}"


@dataclass(frozen=True, slots=True)
class MoveReceivers:
    """Have receivers run on other executors."""

    operation: ClassVar[str | None] = "rebalance_receivers"

    moves: tuple[Move, ...]
    reason: str

    def __str__(self) -> str:
        return f"move {'; '.join(map(str, self.moves))}"


@dataclass(frozen=True, slots=True)
class ReceiversTo:
    """Set the number of receivers, by a restart."""

    operation: ClassVar[str | None] = "set_receivers"

    receivers: int
    reason: str

    def __str__(self) -> str:
        return f"set the receivers to {self.receivers}"
