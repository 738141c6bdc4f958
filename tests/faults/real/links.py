"""What a network does to a connection, as Toxiproxy can do it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from enum import Enum

from dev.toxiproxy.proxy import Toxic


class Damage(Enum):
    """The value ends the name of a fault."""

    SLOW = "slow"
    HOLE_OUT = "hole-out"
    HOLE_BACK = "hole-back"
    RESET = "reset"
    DRIP = "drip"
    CUT = "cut"
    CUT_LATER = "cut-later"

    @property
    def in_words(self) -> str:
        return _DAMAGES[self][0]

    def toxics(self, answer: int) -> tuple[Toxic, ...]:
        """
        Args:
            answer: bytes of a usual answer.
        """
        if self is Damage.CUT_LATER:
            return (_cut_after(answer * 3 // 2),)
        return _DAMAGES[self][1]


def _cut_after(size: int) -> Toxic:
    """Ends each connection after so many bytes of answers."""
    return Toxic("limit_data", "downstream", {"bytes": size})


def _both(kind: str, **attributes: int) -> tuple[Toxic, ...]:
    return Toxic(kind, "upstream", attributes), Toxic(kind, "downstream", attributes)


_DAMAGES: dict[Damage, tuple[str, tuple[Toxic, ...]]] = {
    Damage.SLOW: ("everything arrives 2 s late, each way", _both("latency", latency=2000)),
    Damage.HOLE_OUT: (
        "what is sent disappears, and the connection stays open",
        (Toxic("timeout", "upstream", {"timeout": 0}),),
    ),
    Damage.HOLE_BACK: (
        "all arrives, and every answer disappears",
        (Toxic("timeout", "downstream", {"timeout": 0}),),
    ),
    # Towards who asks alone: an emulator of Kinesis ends of it.
    Damage.RESET: (
        "every connection is reset",
        (Toxic("reset_peer", "downstream", {"timeout": 0}),),
    ),
    Damage.DRIP: (
        "answers come byte after byte, ten a second",
        (
            Toxic(
                "slicer",
                "downstream",
                {"average_size": 1, "size_variation": 0, "delay": 100_000},
            ),
        ),
    ),
    Damage.CUT: (
        "every connection ends after 100 bytes of answer",
        (_cut_after(100),),
    ),
    Damage.CUT_LATER: ("every connection ends in the middle of its second answer", ()),
}


@contextmanager
def begun_later(
    damage: Callable[[], AbstractContextManager[None]],
) -> Iterator[Callable[[], None]]:
    """Gives what has damage begin when it is first called; it lasts as long as this context.

    Raises:
        AssertionError: it was never called.
    """
    begun = False
    with ExitStack() as stack:

        def begin() -> None:
            nonlocal begun
            if not begun:
                begun = True
                stack.enter_context(damage())

        yield begin
        assert begun, "nothing was asked for that is to be damaged"
