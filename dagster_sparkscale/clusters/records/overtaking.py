"""Which request stands: one that waited, as in a run queue, is nothing once overtaken.

The record of a stream keeps when each change of it was last asked for (`Record.asked`). Two places
see to that, both in `leases.py`: the first thing that an operation writes notes when the operation
was asked for, and an operation that comes for the lease too late does not get it.

    stop                 is overtaken by a start or a restart that was asked for later
    anything else        by a stop
    a start              by nothing else: it attaches to what runs
    a change             by a later one of the same; `set_limits/clicks` is part of `set_limits`
    restart, receivers   by a driver that was started later: it has what is declared, and
                         receivers and executors of its own
    lift_hold            by a hold that was set later, and by nothing else

What names the driver that it is for, as recovery and `declare_gone` do, is fenced by that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dagster_sparkscale.clusters.records.store import Record

CLOCKS_DIFFER = 60.0
"""Seconds by which a request must have been made after another one to count as later: the clocks
of their hosts differ."""

START, RESTART, STOP, STOP_ORPHAN = "start", "restart", "stop", "stop_orphan"
REBALANCE, DECLARE_GONE, LIFT_HOLD, RECOVERY = (
    "rebalance_receivers",
    "declare_gone",
    "lift_hold",
    "recovery",
)
_STOPS, _STARTS = (STOP, STOP_ORPHAN), (START, RESTART)
_NAMES_ITS_DRIVER = (DECLARE_GONE, RECOVERY)
_OF_ONE_DRIVER = (RESTART, REBALANCE)


@dataclass(frozen=True)
class Requester:
    """Who asks for a change of a stream, for which one, and when that was."""

    name: str
    """For people: `rescale run 1a2b3c4d`."""
    change: str
    """The operation; with a part of what it may change, `set_limits/clicks`."""
    asked_at: float
    """Seconds since the epoch."""

    def __str__(self) -> str:
        return self.name

    def of(self, part: str | None) -> "Requester":
        """The same, asking for a part of what the operation may change; None: for all of it."""
        return self if part is None else replace(self, change=f"{self.change}/{part}")


Holder = Requester | str
"""Who takes a lease. By a name alone somebody goes on with what has begun: nothing overtakes it."""


def overtaken(record: Record, holder: Holder, now: float) -> str | None:
    """What has overtaken the request of `holder`, in words; None: it stands.

    Args:
        now: seconds since the epoch. What is remembered as later than that is of a clock that was
            ahead, and overtakes nothing: else a stop would bar every start until that time.
    """
    if isinstance(holder, str) or holder.change in _NAMES_ITS_DRIVER:
        return None
    if holder.change == LIFT_HOLD:
        if record.hold is not None and (late := _later(record.hold.since, holder, now)):
            return f"the hold of {record.hold.by} was set {late} this was asked for"
        return None
    for change, at in record.asked.items():
        if _overtakes(change, holder.change) and (late := _later(at, holder, now)):
            operation = change.partition("/")[0]
            return f"{operation} was asked for {late} this, and was carried out before it"
    if holder.change in _OF_ONE_DRIVER and (late := _later(record.submitted_at, holder, now)):
        return f"driver {record.epoch} was started {late} this was asked for"
    return None


def noted(record: Record, holder: Holder) -> Record:
    """`record`, knowing when the change that `holder` carries out was asked for."""
    if isinstance(holder, str) or holder.change in (*_NAMES_ITS_DRIVER, LIFT_HOLD):
        return record
    before: Mapping[str, float] = record.asked
    if before.get(holder.change, float("-inf")) >= holder.asked_at:
        return record
    return replace(record, asked={**before, holder.change: holder.asked_at})


def _later(at: float, holder: Requester, now: float) -> str | None:
    """By how much `at` is later than the request, in words; None: it is not, or can't be."""
    seconds = at - holder.asked_at
    return f"{seconds:.0f} s after" if seconds > CLOCKS_DIFFER >= at - now else None


def _overtakes(later: str, earlier: str) -> bool:
    if earlier in _STOPS:
        return later in _STARTS
    if later in _STOPS:
        return True
    return earlier != START and (
        later == earlier or later.startswith(f"{earlier}/") or earlier.startswith(f"{later}/")
    )
