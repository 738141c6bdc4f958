"""Guards of executors: what runs on one for good must be elsewhere before the executor may go."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dagster_sparkscale.driver.wire import Executor


@dataclass(frozen=True)
class Pinned:
    """How executors are pinned, as one look has found it."""

    pins: Mapping[str, int] = field(default_factory=dict)
    """How many pins each executor has, or had last."""
    coming: Mapping[str, int] = field(default_factory=dict)
    """How many pins have been sent to each executor and are not there yet."""
    total: int = 0
    """All pins, also those that have no executor at the moment."""
    unplaced: int = 0
    """Pins that have had no executor yet, as while they are being started."""
    unsettled: frozenset[str] = frozenset()
    """Executors that still hold what a pin has left there and no batch has processed yet."""
    waiting: str | None = None
    """Why executors that are to go have not been told to leave, for people."""

    def on(self, executors: Iterable[Executor], coming: bool = False) -> tuple[Executor, ...]:
        """The executors, each with its number of pins.

        Args:
            coming: whether pins count that are on their way there.
        """
        there, more = self.pins, self.coming if coming else {}
        return tuple(
            replace(each, receivers=there.get(each.id, 0) + more.get(each.id, 0))
            for each in executors
        )


@dataclass(frozen=True)
class Going:
    """Executors that are not to be pinned any more."""

    evacuated: frozenset[str] = frozenset()
    """Executors whose pins are moved away before they leave."""
    leaving: frozenset[str] = frozenset()
    """Executors that are leaving."""


class Guard:
    """Says what pins executors, and moves it away: by default nothing does."""

    pin = "pin"
    """What one pin is called, for people."""

    def known(self) -> Pinned | None:
        """What the last look has found; None: nothing yet, or it can't be told."""
        return Pinned()

    def held(self, within: float) -> Pinned | None:
        """What a look that begins now finds; None: it finds nothing within so many seconds."""
        return Pinned()

    def going(self, executors: Going) -> None:
        """Learn which executors are to go. Called at each look at the executors."""
