"""The executors of a driver: the look that keeps them at the target, and the requests to set it."""

import time
from contextlib import suppress
from dataclasses import replace

from dagster_sparkscale.driver.begin.options import MAX_EXECUTORS, Options
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.operation_order import Admission
from dagster_sparkscale.driver.request import BadRequest, NotReady, Request, shown
from dagster_sparkscale.driver.spark.looks import ASKED_WITHIN, Look
from dagster_sparkscale.driver.spark.private import PrivateSpark
from dagster_sparkscale.driver.wire import Executor, Spark

from .guard import Guard
from .target import ExecutorContext, Keeper


class ExecutorControl:
    """Keeps the executors at the target that was set last. Safe for threads."""

    def __init__(self, options: Options, private: PrivateSpark, admission: Admission) -> None:
        self._target, self._most = options.initial_executors, options.max_executors
        self._before: int | None = None
        """The target before it was raised for a while; None: it is not, or one was set since."""
        self._admission = admission
        self._keeper = Keeper(Guard(), private)
        self.look = Look("executors", self._turn, self._keeper.pause)
        self.routes = {("PUT", "/v1/executors"): self._set_target}

    def guard_by(self, guard: Guard) -> None:
        """Have no executor removed that this guard says is needed."""
        self._keeper.guard = guard

    def begin(self) -> None:
        """Take a SparkContext up that has just been created: state the initial target."""
        self._keeper.begin(self._target, self._most)

    def _turn(self) -> Spark:
        return self._keeper.turn(self._target, stopping=self._admission.phase == "stopping")

    @property
    def bound(self) -> ExecutorContext | None:
        """What is known of the SparkContext that was looked at last; None: there was none yet."""
        return self._keeper.bound

    def listed(self) -> tuple[Executor, ...]:
        """The executors that the last look has found; none before the first."""
        seen = self.look.seen
        return () if seen is None else seen.value.executors

    def registered(self) -> tuple[int | None, int | None]:
        """How many executors are registered now, and their cores; None: not known."""
        spark = self.look.lately
        if spark is None:
            return None, None
        return spark.registered, sum(each.cores for each in spark.executors) or None

    @property
    def requested(self) -> int:
        """The number of executors that was set last, or for a while."""
        return self._target

    @property
    def staying(self) -> int | None:
        """How many executors are registered now and not about to leave; None: not known."""
        spark = self.look.lately
        if spark is None or spark.registered is None:
            return None
        return spark.registered - spark.removing

    def answer(self) -> Spark:
        """What Spark has said of its executors."""
        requested = self._target if self._admission.attached else None
        seen = self.look.seen
        if seen is None:
            return Spark(requested=requested)
        held = self._keeper.guard.known()
        listed = seen.value.executors if held is None else held.on(seen.value.executors)
        return replace(seen.value, age=round(seen.age, 3), requested=requested, executors=listed)

    def _set_target(self, request: Request) -> None:
        target = request.fields.get("target")
        if type(target) is not int or not 1 <= target <= MAX_EXECUTORS:
            raise BadRequest(
                f"target: {shown(target)}: must be a whole number from 1 to {MAX_EXECUTORS}"
            )
        self.set_target(target, request.operation)

    def set_target(self, target: int, operation: int | None = None) -> None:
        """Set the absolute number of executors; returns once the cluster manager was told.

        Raises:
            OutOfOrder: a later operation has been here.
            NotReady: it was not told in time. The target stands all the same, unless Spark is
                not there yet or has gone.
        """
        with self._admission.of_spark(operation, "executors cannot be set"):
            if not self._keeper.scalable:
                raise NotReady("a local master has no executors of its own that could be set")
            self._before = None
            asked = self._aim(target)
        told = self.look.wait(asked, time.monotonic() + ASKED_WITHIN)
        if self._target != target:
            raise NotReady(f"the target of {target} was overtaken by one of {self._target}")
        if not told or self._keeper.stated != target:
            trouble = {"Spark": self.look.trouble, "the cluster manager": self._keeper.trouble}
            why = "; ".join(f"{who}: {what}" for who, what in trouble.items() if what)
            why = why or "Spark gave no answer in time"
            raise NotReady(f"{why}; the target of {target} stands and is asked for again")

    def raise_to(self, target: int, had: int | None = None) -> None:
        """Have at least so many executors until `put_back`, or until somebody sets a number. Does
        not wait for them.

        Args:
            had: the number that was set when `target` was decided; None: not known.

        Raises:
            NotReady: the program does not run, its executors can't be set, or another number has
                been set since.
        """
        with self._admission.of_spark(None, "executors cannot be added"):
            if not self._keeper.scalable:
                raise NotReady("a local master has no executors of its own that could be added")
            if had not in (None, self._target):
                raise NotReady(
                    f"somebody has set the number of executors to {self._target} meanwhile"
                )
            if target > self._target:
                self._before = self._target if self._before is None else self._before
                self._aim(target)

    def put_back(self) -> None:
        """Have as many executors as before `raise_to`, unless somebody has set a number since."""
        with suppress(NotReady), self._admission.of_spark(None, ""):  # else they end with all else
            before, self._before = self._before, None
            if before is not None:
                self._aim(before)

    def _aim(self, target: int) -> int:
        """Have the executors brought to another number; returns what `Look.wait` is to be given."""
        if target != self._target:
            say(f"target {self._target} -> {target} executors")
        self._target = target
        self._keeper.stated = None
        return self.look.ask()
