"""Requests that are overtaken by later ones. A request that waited, such as in a run queue, is then
void.

The record of a stream keeps when each change of it was last asked for (`Record.asked`). Two places
keep that rule, both in `leases.py`: the first thing that an operation writes notes when the
operation was asked for, and an overtaken operation does not get the lease.

    stop                 is overtaken by a start or a restart that was asked for later
    anything else        by a stop
    a start              by nothing else: it attaches to what runs
    a change             by a later one of the same; `set_limits/clicks` is part of `set_limits`
    a restart            by a driver that was started later: it has what is declared; so is what
                         says that it is of one driver, whose executors and tasks are its own
    lift_hold            by a hold that was set later, and by nothing else

Recovery and `declare_gone` name the driver that they are for: its epoch fences them. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dagster_sparkscale.clusters.records.store import Record

CLOCKS_DIFFER = 60.0
"""Seconds by which a request must have been made after another one to count as later: the clocks
of their hosts differ."""

START, RESTART, STOP, STOP_ORPHAN = "start", "restart", "stop", "stop_orphan"
STEER = "steer"
"""Takes no lease, and keeps no other operation from one."""
DECLARE_GONE, LIFT_HOLD, RECOVERY = "declare_gone", "lift_hold", "recovery"
_STOPS, _STARTS = (STOP, STOP_ORPHAN), (START, RESTART)
_NAMES_ITS_DRIVER = (DECLARE_GONE, RECOVERY)


def _unheard(line: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Requester:
    """A requester of a change: who asks, for which driver, and on which terms.

    It goes as one value from the run that asks to the lease by which the change is made.
    """

    name: str
    """The requester's name for people: `rescale run 1a2b3c4d`."""
    change: str = ""
    """The operation; with a part of what it may change, `set_limits/clicks`."""
    asked_at: float | None = None
    """Seconds since the epoch; None: it goes on with what has begun, which nothing overtakes."""
    epoch: int | None = None
    """The driver that this was asked about; None: whichever is there."""
    decided: bool = False
    """Whether a policy has decided it: what is not so any more is no fault then."""
    of_one_driver: bool = False
    """Whether a driver that was started later has no need of the change."""
    owner: str = ""
    """The owner of the stream, as `Record.owner`; empty: not known."""
    lease_wait: float = 60.0
    """Seconds to wait for an operation in progress to end."""
    tell: Callable[[str], None] = field(default=_unheard, repr=False, compare=False)
    """Called with a line for each thing that happens."""

    def __str__(self) -> str:
        return self.name

    def of(self, part: str | None) -> "Requester":
        """This requester, for a part of what the operation may change; None: for all of it."""
        return self if part is None else replace(self, change=f"{self.change}/{part}")

    def about(self, epoch: int | None) -> "Requester":
        """This requester, asking about the driver of this epoch; None: about whichever is there."""
        return replace(self, epoch=epoch)

    def has_begun(self) -> "Requester":
        """This requester, on its way to an end: nothing overtakes that."""
        return replace(self, asked_at=None)


Holder = Requester | str
"""The holder of a lease. A name alone continues what has begun, and nothing overtakes it."""


def overtaken(record: Record, holder: Holder, now: float) -> str | None:
    """Say what has overtaken the request of `holder`; None: it stands.

    Args:
        now: seconds since the epoch. What is remembered as later than that is of a clock that was
            ahead, and overtakes nothing: else a stop would bar every start until that time.
    """
    if isinstance(holder, str) or holder.asked_at is None or holder.change in _NAMES_ITS_DRIVER:
        return None
    asked_at = holder.asked_at
    if holder.change == LIFT_HOLD:
        if record.hold is not None and (late := _later(record.hold.since, asked_at, now)):
            return f"the hold of {record.hold.by} was set {late} this was asked for"
        return None
    for change, at in record.asked.items():
        if _overtakes(change, holder.change) and (late := _later(at, asked_at, now)):
            operation = change.partition("/")[0]
            return f"{operation} was asked for {late} this, and was carried out before it"
    of_one_driver = holder.of_one_driver or holder.change == RESTART
    if of_one_driver and (late := _later(record.submitted_at, asked_at, now)):
        return f"driver {record.epoch} was started {late} this was asked for"
    return None


def noted(record: Record, holder: Holder) -> Record:
    """Note in `record` when the change that `holder` carries out was asked for."""
    if isinstance(holder, str) or holder.asked_at is None:
        return record
    if holder.change in (*_NAMES_ITS_DRIVER, LIFT_HOLD):
        return record
    before: Mapping[str, float] = record.asked
    if before.get(holder.change, float("-inf")) >= holder.asked_at:
        return record
    return replace(record, asked={**before, holder.change: holder.asked_at})


def _later(at: float, asked_at: float, now: float) -> str | None:
    """How much later than the request `at` is, in words; None: it is no later, or by a wrong
    clock."""
    seconds = at - asked_at
    return f"{seconds:.0f} s after" if seconds > CLOCKS_DIFFER >= at - now else None


def _overtakes(later: str, earlier: str) -> bool:
    if earlier in _STOPS:
        return later in _STARTS
    if later in _STOPS:
        return True
    return earlier != START and (
        later == earlier or later.startswith(f"{earlier}/") or earlier.startswith(f"{later}/")
    )
