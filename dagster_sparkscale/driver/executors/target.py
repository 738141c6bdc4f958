"""Keeps the executors at a target.

What acts takes no lock of streaming's: `StreamingContext.start` holds one until there is an
executor, and would bar the way to the very executors it waits for. What pins executors is looked
at by somebody else (`guard.py`), and waited for only before an executor is removed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.request import NotReady
from dagster_sparkscale.driver.settings import REMOVAL
from dagster_sparkscale.driver.spark.features import DETAILS
from dagster_sparkscale.driver.spark.jvm import Jvm, PerContext
from dagster_sparkscale.driver.spark.looks import first_line
from dagster_sparkscale.driver.spark.private import PrivateSpark, check_version
from dagster_sparkscale.driver.wire import Executor, Spark

from .executors import Executors
from .guard import Going, Guard
from .victims import V1, Rule

SETTLED, UNSETTLED, HOPELESS = 10.0, 1.0, 5.0
"""Seconds between looks at the executors: when they are as many as the target; when not; and when
they have not been for `HOPELESS_AFTER` seconds, as in a full cluster."""
HOPELESS_AFTER = 60.0
PLACING_WITHIN = 30.0
"""Seconds a scale-down waits for pins that are being started."""
PINS_WITHIN = 2.0
"""Seconds a scale-down waits for a look at what pins executors, each time it is tried."""


@dataclass(frozen=True)
class ExecutorContext:
    """What the keeper has of one SparkContext."""

    executors: Executors
    app_id: str | None
    ui_url: str | None
    version: str
    rule: Rule = V1
    """The rule by which executors go, without how many pins there are."""


class Keeper:
    """Brings the executors of whichever SparkContext the program has to the target.

    Args:
        guard: says what pins executors, and moves it away from those that are to go.
    """

    def __init__(
        self, guard: Guard, private: PrivateSpark, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.guard = guard
        self._private = private
        self._evacuated: frozenset[str] = frozenset()
        self._clock = clock
        self.stated: int | None = None
        """The last target that the cluster manager has taken note of; None has it stated anew."""
        self.trouble: str | None = None
        """Why the cluster manager has not taken note of a target."""
        self._per_context = PerContext(self._bind)
        self.bound: ExecutorContext | None = None
        """The executors of the last SparkContext that there was; None: there was none yet."""
        self._stated_at = 0.0
        self._unsettled_since: float | None = None
        self._placing_since: float | None = None

    @property
    def scalable(self) -> bool:
        """False for a `local[...]` master, which has no executors of its own."""
        return self.bound is None or self.bound.executors.scalable

    def begin(self, target: int, most: int | None) -> None:
        """Take charge of the SparkContext that has just been created: state the initial target
        before anything else.

        Args:
            most: executors that the cluster may have started by itself; None: not known.
        """
        executors = self._current().executors
        self._state(executors, target)
        if executors.scalable:
            try:
                executors.call_off_surplus(target, most)
            except Exception as error:  # they go once they have registered
                say(f"surplus executors cannot be called off early: {first_line(error)}")
        say(f"initial target: {target} executors")

    def pause(self) -> float:
        """Seconds until the next turn, if nobody asks for one before."""
        if self._unsettled_since is None:
            return SETTLED
        lasted = self._clock() - self._unsettled_since
        return HOPELESS if lasted > HOPELESS_AFTER else UNSETTLED

    def _current(self) -> ExecutorContext:
        bound = self._per_context.get()
        if bound is None:
            raise NotReady("the program has stopped its SparkContext")
        if bound is not self.bound:
            self.bound, self.stated = bound, None
        return bound

    def _bind(self, context: Any) -> ExecutorContext:
        return ExecutorContext(
            executors=Executors(Jvm(context), self._private),
            app_id=context.applicationId,
            ui_url=context.uiWebUrl,
            version=check_version(context),
            rule=rule_of(context),
        )

    def turn(self, target: int, stopping: bool = False) -> Spark:
        """Do what brings the executors to `target`.

        Args:
            stopping: whether the program is being ended: then none is removed. Its receivers have
                ended, and what they took is still there to be processed.

        Returns what Spark says of them, without its age, what is requested and what pins them.

        Raises:
            NotReady: the program has no SparkContext, or it was stopped.
            Exception: whatever Spark raises; the target has been stated all the same, if it could.
        """
        bound = self._current()
        executors = bound.executors
        # Of a local master nothing else is asked, and a JVM that hangs must show.
        if executors.stopped:
            raise NotReady("Spark has stopped its SparkContext")
        again = SETTLED if self._unsettled_since is None else UNSETTLED
        if self.stated != target or self._clock() - self._stated_at >= again:
            self._state(executors, target)
        registered = executors.observe()
        executors.kill_overdue()
        blocked, before, self._evacuated = None, self._evacuated, frozenset()
        if not executors.scalable:
            blocked = "a local master has no executors of its own"
        elif registered is None:
            blocked = "this Spark does not tell which executors there are"
        elif len(registered) > target and stopping:
            blocked = "the program is being ended: none is removed until it has"
        elif len(registered) > target:
            blocked = self._shrink(bound, registered, target, before)
        else:
            self._placing_since = None  # the next scale-down waits anew
        # In a stop pins end where they are.
        self.guard.going(Going() if stopping else Going(self._evacuated, executors.leaving))
        settled = registered is None or not executors.scalable or len(registered) == target
        settled = settled and not executors.unclear
        self._unsettled_since = None if settled else (self._unsettled_since or self._clock())
        return Spark(
            registered=None if registered is None else len(registered),
            removing=executors.removing,
            blocked=blocked,
            executors=(registered or ()) if self._private.has(DETAILS) else (),
        )

    def _shrink(
        self,
        bound: ExecutorContext,
        registered: Sequence[Executor],
        target: int,
        evacuated: frozenset[str],
    ) -> str | None:
        """Have as many executors leave as are too many. Returns why fewer go, if so.

        Args:
            evacuated: those of which the pins are being moved away.
        """
        self._evacuated = evacuated  # what can't be told now changes nothing
        held, pin = self.guard.held(PINS_WITHIN), self.guard.pin
        if held is None:
            return f"where {pin}s run cannot be told: an executor may host one, so none is removed"
        if self._being_placed(held.unplaced):
            return f"{held.unplaced} {pin}(s) are being started; waiting for them"
        executors, before = bound.executors, bound.executors.removing
        rule = replace(bound.rule, pins=held.total)
        # One that a pin has been sent to may have it at any moment.
        listed = held.on(registered, coming=True)
        choice = executors.choose(listed, target, rule, evacuated)
        pinned = {each.id for each in listed if each.receivers}
        waiting = [id for id in choice.victims if id in pinned or id in held.unsettled]
        wait = f"executor(s) {', '.join(waiting)} go once no {pin} needs them"
        self._evacuated = frozenset(waiting)
        if self._evacuated - evacuated:
            say(f"{wait}: {choice.why}")
        executors.tell_to_leave(
            [id for id in choice.victims if id not in waiting],
            f"{len(registered)} registered, target {target}; {choice.why}",
        )
        if executors.removing != before:
            self._state(executors, target)
        why = held.waiting or (wait if waiting else None)
        return "; ".join(filter(None, [choice.blocked, why])) or None

    def _state(self, executors: Executors, target: int) -> None:
        self._stated_at = self._clock()
        try:
            taken = executors.request(target)
            why = "it did not take the number of executors"
        except Exception as error:
            taken, why = False, f"{type(error).__name__}: {first_line(error)}"
        if taken:
            self.stated = target
            if self.trouble is not None:
                say("the cluster manager answers again")
            self.trouble = None
        elif executors.scalable:
            if self.trouble != why:
                say(f"trouble with the cluster manager: {why}; trying on")
            self.trouble = why

    def _being_placed(self, unplaced: int) -> bool:
        if not unplaced:
            self._placing_since = None
            return False
        now = self._clock()
        self._placing_since = self._placing_since or now
        return now - self._placing_since < PLACING_WITHIN


def rule_of(context: Any) -> Rule:
    """The rule by which executors of a SparkContext go, from its settings."""
    conf = context.getConf()
    said = conf.get(REMOVAL, "never")
    if said not in ("never", "fitting"):
        say(f"{REMOVAL} = {said!r}: must be never or fitting; never it is")
    return Rule(said == "fitting", task_cpus=max(1, int(conf.get("spark.task.cpus", "1"))))
