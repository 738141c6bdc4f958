"""The executors that a stream has more of while its state is changed beside it. Pure.

All that are declared, or none: a part of them may be too little for the copy, and the batches of a
busy stream would pay for that.
"""

from dataclasses import dataclass, replace

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.begin.options import MAX_EXECUTORS
from dagster_sparkscale.in_force.limits import bounds_in_force
from dagster_sparkscale.in_force.steering import Steering, in_force
from dagster_sparkscale.quantities import counted


@dataclass(frozen=True)
class More:
    """What may be added."""

    declared: int = 0
    """Executors more that are declared."""
    target: int | None = None
    """Executors in all with those; None: none are added."""
    why_not: str | None = None
    """Why none are added though some are declared, for people; None: they are."""

    @property
    def had(self) -> int | None:
        """The number to which they are added; None: none are."""
        return None if self.target is None else self.target - self.declared

    @property
    def words(self) -> str:
        """How it goes on after "beside the stream"; empty: none are declared."""
        more = counted(self.declared, "more executor")
        if self.target is not None:
            return f", with {more} while it is made"
        return f", without the {more} that are declared: {self.why_not}" if self.declared else ""


def more_of(stream: Stream, driver: Driver, requested: int | None, now: float) -> More:
    """What may be added to the executors of a stream that declares state.

    Args:
        requested: the number that the driver has as its target; None: not known.
        now: seconds since the epoch.
    """
    assert stream.state is not None
    steering = in_force(driver.record, stream, now)
    # What the autoscaler has found of the stream says nothing of the copy.
    others = tuple(each for each in steering.entries if each.source != "autoscaler")
    bounds = bounds_in_force(stream, driver, replace(steering, entries=others))
    return more(stream.state.beside_executors, requested, bounds, steering)


def more(declared: int, requested: int | None, bounds: Bounds, steering: Steering) -> More:
    """What may be added to `requested` executors, in these bounds."""
    if not declared:
        return More()
    if requested is None:
        return More(declared, why_not="how many it was to have is not known")
    if (entry := steering.decisive) is not None:
        return More(declared, why_not=f"the stream is {steering.in_words(entry)}")
    if bounds.maximum is not None and requested + declared > bounds.maximum:
        note = f" ({bounds.note})" if bounds.note else ""
        why = f"it has {requested}, and may have {bounds.maximum}{note}"
        return More(declared, why_not=why)
    if requested + declared > MAX_EXECUTORS:  # which the driver would not take
        return More(declared, why_not=f"a stream may have {MAX_EXECUTORS:,} executors at most")
    return More(declared, requested + declared)
