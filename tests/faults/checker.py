"""Watches what happens to drivers, and holds it against what was told. By what processes do alone:
nothing here reads a record, a lease or what the library says of itself.

    two drivers         never do two work on one checkpoint
    done twice          no operation launches a driver, or moves a receiver, once too often
    told, not done      what an operation has told as done is so
    lost                a driver that comes later begins with what was told to be set
    not visible         what a driver was asked for shows, whatever whoever asked was told
    began after a stop  of what was told to be stopped, nothing begins to work
    without a word      every operation that was not killed ends, and says what it came to
    refused in vain     no driver is kept from a checkpoint that nobody has any more
    down                what was to run runs again, or what people see of it says why it does not
    not done            once the fault is over, all that is asked for is done
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.lifecycle.jobs import describe
from dagster_sparkscale.lifecycle.reconcile import Action, Outcome
from dagster_sparkscale.state.plan import Settled
from dagster_sparkscale.state.reconfigure import Reconfigured
from dagster_sparkscale.watch.assess import Assessment
from tests.faults.deeds import Deed
from tests.faults.processes import SOURCE, DriverProcess, Processes
from tests.faults.simulation import EPOCH

LAUNCHES = {"start": 1, "restart": 1, "recover": 1, "reconfigure": 2}
"""Drivers that one operation may launch: a change of state may need one more, to undo it."""


DONE = ("reached", "heeded", "moved", "balanced")
"""How operations end that have done what was asked for."""


@dataclass
class Checker:
    processes: Processes
    found: list[str] = field(default_factory=list)
    """What must not be, in words."""
    deeds: list[Deed] = field(default_factory=list)
    recovered: list[float] = field(default_factory=list)
    """Seconds from each death of a driver until the next one of its stream worked."""
    _died: dict[str, float] = field(default_factory=dict)
    _stopped: dict[str, int] = field(default_factory=dict)
    """The last epoch of each stream that was told to be stopped."""

    @property
    def two_drivers(self) -> bool:
        return any(each.startswith("two drivers") for each in self.found)

    def begun(self, it: DriverProcess) -> None:
        """A driver has begun to work."""
        others = self.processes.working(it.start.record.checkpoint)
        if len(others) > 1:
            self.found.append(f"two drivers on one checkpoint: {others}")
        if it.epoch <= self._stopped.get(it.stream, 0):
            self.found.append(f"began after a stop: {it}")
        self._has_what_was_told(it, self._submitted(it))
        died = self._died.pop(it.stream, None)
        if died is not None:
            self.recovered.append(self.processes.clock.now - died)

    def died(self, it: DriverProcess) -> None:
        """A driver was killed, by nobody's wish."""
        self._died[it.stream] = self.processes.clock.now

    def ended(self, deed: Deed) -> None:
        """An operation has told what it came to."""
        if deed.what == "stop":
            self._died.pop(deed.stream.name, None)
        if deed.failed:
            if not str(deed.error).strip():
                self._wrong(deed, "without a word: it failed, and says not of what")
            return
        why = _CHECKS[deed.what](self, deed)
        if why is not None:
            self._wrong(deed, f"told, not done: {why}")

    def at_the_end(self) -> None:
        """All that was begun has had time to end."""
        launches = Counter(it.asked_by for it in self.processes.all)
        for deed in self.deeds:
            if launches[deed.name] > LAUNCHES.get(deed.what, 0):
                self._wrong(deed, f"done twice: it has launched {launches[deed.name]} drivers")
        for it in self.processes.all:
            for other in self.processes.all:
                ended = other.ended_at
                if other.mark != it.met or ended is None:
                    continue
                if ended < EPOCH + self._submitted(it):
                    self.found.append(f"refused in vain: {it}, as {other} had its checkpoint")
            for move, times in Counter(it.moves).items():
                if times > 1:
                    self.found.append(f"done twice: {it} has made the move {move} {times} times")

    def watch(self) -> None:
        """Some time has passed: what was told to be set still is."""
        for it in self.processes.working():
            self._has_what_was_told(it, self.processes.clock.now)

    def all_is_well(self, deed: Deed) -> None:
        """An operation that was asked for after the fault, alone, has had time to end."""
        ending = getattr(deed.came, "ending", None)
        done = deed.ended is not None and not deed.failed
        if not done or ending not in (None, *DONE):
            self._wrong(deed, f"not done: nothing is wrong any more, and it ended as {ending}")

    def visible(self, it: DriverProcess, seen: Assessment | None) -> None:
        """Everything has come to rest, and `it` works: people see what is so."""
        status = seen.sighting.status if seen is not None else None
        if seen is None or status is None or seen.epoch != it.epoch:
            self.found.append(f"not visible: {it} works, and people see {seen}")
        elif (status.requested, dict(status.rates or {})) != (it.kept.requested, it.kept.rates):
            self.found.append(f"not visible: what {it} was asked for")

    def _submitted(self, it: DriverProcess) -> float:
        return self.processes.submitted[it.stream, it.epoch]

    def _has_what_was_told(self, it: DriverProcess, until: float) -> None:
        """What was told to be set until then, a driver has."""
        rescaled = self._lasting(it, ("rescale", "autoscale"), until)
        if rescaled is not None and rescaled.came.ending == "reached":
            wanted = rescaled.came.target
            if it.kept.requested != wanted:
                self._wrong(rescaled, f"lost: {it} has {it.kept.requested} executors requested")
        limited = self._lasting(it, ("limit",), until)
        if limited is not None and _limit_of(it) != limited.value:
            self._wrong(limited, f"lost: {it} has the limit {_limit_of(it)}")

    def _lasting(self, it: DriverProcess, kinds: Sequence[str], until: float) -> Deed | None:
        """The last of these operations, if it was told as done by that moment, and nothing of its
        kind was tried beside it or since."""
        mine = [each for each in self.deeds if each.stream.name == it.stream and each.what in kinds]
        if not mine or mine[-1].ended is None or mine[-1].failed:
            return None
        last, before = mine[-1], mine[:-1]
        alone = all(each.ended is not None and each.ended < last.begun for each in before)
        return last if alone and mine[-1].ended < until else None

    def _wrong(self, deed: Deed, why: str) -> None:
        text = f"{why} ({deed})"
        if text not in self.found:
            self.found.append(text)

    def _alone(self, deed: Deed, *kinds: str) -> bool:
        """Whether no other operation of these kinds went on at the same time, or has come since."""
        return not any(
            other is not deed
            and other.stream.name == deed.stream.name
            and other.what in kinds
            and (other.ended is None or other.ended >= deed.begun)
            for other in self.deeds
        )

    def _working(self, stream: str) -> list[DriverProcess]:
        return [it for it in self.processes.working() if it.stream == stream]

    def _now(self, stream: str, epoch: int) -> DriverProcess | None:
        """The process of that driver, if it works."""
        it = self.processes.of(stream, epoch)
        return it if it is not None and it.works else None

    def _of_a_start(self, deed: Deed) -> str | None:
        came: Outcome = deed.came
        if came.action is Action.HELD:
            if deed.what != "recover":
                return f"it was held: {came.reason}"
            return None if came.reason else "it was held, and says not why"
        if came.action is Action.ATTACHED:
            return self._of_an_attached(deed)
        launched = came.driver.epoch if came.launched is None else came.launched
        if f"{came.action.value} driver {launched}" not in describe(came):
            return f"it says: {describe(came)}"
        it = self.processes.of(deed.stream.name, launched)
        if it is None or it.asked_by != deed.name:
            return f"it has not launched driver {launched}"
        if came.status is not None and came.driver.epoch == launched and not it.began_at:
            return f"driver {it.epoch} has never worked"
        return None

    def _of_an_attached(self, deed: Deed) -> str | None:
        """What a start says that it has found running, or to be on its way."""
        if deed.what == "restart":
            return "it has restarted nothing"
        driver = deed.came.driver
        it = self.processes.of(deed.stream.name, driver.epoch)
        if it is None:
            return None if driver.state is DriverState.STARTING else "it has found no driver"
        # A recovery leaves alone what somebody else has started since.
        ended = it.ended_at is not None and it.ended_at < EPOCH + deed.begun
        return f"it has found {it}" if ended and deed.what == "start" else None

    def _of_a_stop(self, deed: Deed) -> str | None:
        epoch = deed.came.story["epoch"]
        self._stopped[deed.stream.name] = max(epoch, self._stopped.get(deed.stream.name, 0))
        left = [
            it
            for it in self.processes.all
            if it.stream == deed.stream.name and it.epoch <= epoch and it.works
        ]
        return f"there is {left}" if left else None

    def _of_a_rescale(self, deed: Deed) -> str | None:
        story = deed.came
        it = self._now(deed.stream.name, story.driver.epoch)
        if it is None or not self._alone(deed, "rescale", "autoscale"):
            return None
        if story.ending == "superseded":
            return f"it was superseded by nobody: {story.notes}"
        if story.ending == "gone":
            return None
        if it.kept.requested != story.target:
            return f"{story.target} were told to be requested, and {it.kept.requested} are"
        if story.ending == "reached" and it.kept.registered != story.target:
            return f"{story.target} were told to have come, and {it.kept.registered} are there"
        return None

    def _of_a_limit(self, deed: Deed) -> str | None:
        it = self._now(deed.stream.name, deed.came.driver.epoch)
        if it is None or not self._alone(deed, "limit"):
            return None
        has = _limit_of(it)
        return None if has == deed.value else f"{deed.value:g} was told to be set, and {has} is"

    def _of_a_move(self, deed: Deed) -> str | None:
        receiver, executor = deed.value
        it = self._now(deed.stream.name, deed.came.driver.epoch)
        if it is None or deed.came.ending != "moved" or not self._alone(deed, "move"):
            return None
        places = {each.stream_id: each.executor for each in it.kept.receivers or ()}
        there = places[receiver]
        return None if there == executor else f"receiver {receiver} is on executor {there}"

    def _of_a_reconfiguration(self, deed: Deed) -> str | None:
        if not self._alone(deed, "reconfigure"):
            return None
        if isinstance(deed.came, Reconfigured):
            it = self.processes.of(deed.stream.name, deed.came.driver.epoch)
            assert it is not None
        elif isinstance(deed.came, Settled) and (mine := self._working(deed.stream.name)):
            it = mine[0]
        else:
            return None
        has = self.processes.partitions.get(it.start.record.checkpoint or "")
        return None if has == deed.value else f"the state has {has} partitions"


def _limit_of(it: DriverProcess) -> float | None:
    rate: float | None = (it.kept.rates.get(SOURCE) or {}).get("maxRate")
    return rate


_CHECKS = {
    "start": Checker._of_a_start,
    "restart": Checker._of_a_start,
    "recover": Checker._of_a_start,
    "stop": Checker._of_a_stop,
    "rescale": Checker._of_a_rescale,
    "autoscale": Checker._of_a_rescale,
    "limit": Checker._of_a_limit,
    "move": Checker._of_a_move,
    "reconfigure": Checker._of_a_reconfiguration,
}


def is_to_run(deeds: Sequence[Deed], stream: str) -> bool | None:
    """Whether people have a right to see a stream run, by what they were told; None: either may be,
    as of what was asked for last nobody was told that it was done.

    Args:
        deeds: in the order in which they were begun.
    """
    wishes = [each for each in deeds if each.stream.name == stream and each.what in _WISHES]
    for deed in reversed(wishes):
        # What was killed, failed or was overtaken may have done it or not.
        if deed.ended is None or deed.failed or _held(deed):
            return None
        later = [each for each in wishes if each is not deed and overlaps(each, deed)]
        return None if later else _WISHES[deed.what]
    return False


def _held(deed: Deed) -> bool:
    return isinstance(deed.came, Outcome) and deed.came.action is Action.HELD


def overlaps(one: Deed, other: Deed) -> bool:
    """Whether both went on at the same time."""
    begun = max(one.begun, other.begun)
    return all(each.ended is None or each.ended >= begun for each in (one, other))


_WISHES = {"start": True, "restart": True, "stop": False}
