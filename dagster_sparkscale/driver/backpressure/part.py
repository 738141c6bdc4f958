"""Limits in the agent: what is declared, requests to set them, and the threads that state them."""

import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.batches.reports import DoneBatch
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.part import Core, Part
from dagster_sparkscale.driver.request import BadRequest, NotReady, Request, shown
from dagster_sparkscale.driver.settings import BACKPRESSURE, DECLARED_FIRST_RATE, RATES
from dagster_sparkscale.driver.spark.jvm import Jvm, PerContext
from dagster_sparkscale.driver.spark.looks import SELDOM, Look
from dagster_sparkscale.driver.wire import Batch

from .limiter import Limiter
from .plan import BadEstimatorPlan, plan_of
from .rates import BadRates, Rates, rates_of
from .receiver_limits import ReceiverLimits
from .source import receivers_first

FIRST_RATE = "spark.streaming.backpressure.initialRate"
MAX_RATE = "spark.streaming.receiver.maxRate"
TASK_CPUS = "spark.task.cpus"
SPARKS_OWN = "spark.streaming.backpressure.enabled"
SOONEST, LATEST = 0.2, 2.0
"""Seconds between two looks at what changes with each batch."""


class BackpressurePart(Part):
    """Limits what the sources of a driver take, as is declared and set. Safe for threads."""

    def __init__(self, core: Core, rates: Rates) -> None:
        self._rates, self._history, self._admission = rates, core.history, core.admission
        self._interval_ms, self._registered = core.options.interval_ms, core.executors.registered
        self._setting = threading.Lock()
        self._limiter = Limiter(self._interval_ms)
        self._lost: str | None = None
        self._stating = PerContext(lambda c: ReceiverLimits(Jvm(c), core.private, self._limiter))
        self._file = Look("the file with live limits", rates.keep)
        self._receivers = Look("live limits of receivers", self._state, self._pause)
        self.routes = {("PUT", "/v1/rates"): self._set}

    def properties(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        has = settings.get(FIRST_RATE, "")
        first = receivers_begin_with(settings.get(RATES, ""), has)
        if first is None:
            return {}
        declared = settings.get(DECLARED_FIRST_RATE, has)
        return {FIRST_RATE: first, DECLARED_FIRST_RATE: declared}

    def begin(self, context: Any) -> None:
        self._rates.tell_jvm(context)
        self.take_up(dict(context.getConf().getAll()))

    def take_up(self, settings: Mapping[str, str]) -> None:
        """Take up what the driver was started with, before the program runs.

        What can't be read is said, and passed over: a stream is not kept from running by it.
        """
        plan, limits = None, self._rates.current()
        try:
            if text := settings.get(BACKPRESSURE):
                plan = plan_of(text)
        except BadEstimatorPlan as error:
            self._trouble(f"backpressure is off: {BACKPRESSURE}: {error}")
        try:
            if text := settings.get(RATES):
                limits = rates_of(text)
        except BadRates as error:
            self._trouble(f"sources begin without the limits that were set: {RATES}: {error}")
        if plan is not None and settings.get(SPARKS_OWN, "").lower() == "true":
            self._trouble(f"{SPARKS_OWN} is true as well: two estimators contradict each other")
        self._limiter.task_cpus = int(_rate(settings, TASK_CPUS) or 1)
        lowered = DECLARED_FIRST_RATE in settings
        self._limiter.begin(
            plan,
            receivers_begin=_rate(settings, FIRST_RATE),
            receivers_most=_rate(settings, MAX_RATE),
            receivers_free=_rate(settings, DECLARED_FIRST_RATE if lowered else FIRST_RATE),
            receivers_held=lowered,
        )
        try:
            self._rates.begin(limits, self._limiter.content)
        except OSError as error:
            self._trouble(f"live limits cannot be written: {error}")
        if plan is not None:
            first = "no limit" if plan.first_rate is None else f"{plan.first_rate:g} records/s"
            say(f"backpressure by {plan.estimator!r}; each source begins with {first}")

    def _trouble(self, what: str) -> None:
        say(what)
        self.missing = (*self.missing, what)

    def start(self) -> None:
        """Start the threads that state the limits, once there is a SparkContext."""
        for look in (self._file, self._receivers):
            look.begin()

    def answer(self) -> Mapping[str, Any]:
        return {"rates": self._rates.current(), "limits": self._limiter.limits()}

    def close(self) -> None:
        self._rates.close()

    def _set(self, request: Request) -> None:
        absolute = request.fields.get("absolute", False)
        if type(absolute) is not bool:
            raise BadRequest(f"absolute: {shown(absolute)}: must be true or false")
        operation = request.operation
        self.set_rates(request.fields.get("rates"), operation, absolute)

    def set_rates(self, wanted: Any, operation: int | None = None, absolute: bool = False) -> None:
        """Set and remove live limits of sources; returns once they are in the sources' file.
        Receivers are told soon after.

        Args:
            absolute: whether what is not named is removed.
            operation: the number of the operation that asks; None: it has none.

        Raises:
            OutOfOrder: a later operation has been here.
            BadRates: `wanted` is none; the text says what is wrong.
            NotReady: the file cannot be written. The limits are as before.
        """
        with self._setting:  # or one that was admitted earlier might be carried out later
            self._admission.operations.admit(operation)
            try:
                self._rates.change(wanted, absolute)
            except OSError as error:
                raise NotReady(f"rates: they cannot be written: {error}") from None
        self.changed()

    def changed(self) -> None:
        """State the limits now: others may be in force. Does not wait."""
        self._file.ask()
        self._receivers.ask()

    def completed(self, done: DoneBatch) -> Batch:
        """Take a completed batch. Never raises: Spark's bus of events is waiting."""
        batch = done.batch
        try:
            executors, self._limiter.cores = self._registered()
            batch = replace(batch, executors=executors)
            batch = replace(batch, limit=self._limiter.limit_of(replace(done, batch=batch)))
            cold = self._history.would_be_cold(batch)
            self._limiter.completed(replace(done, batch=replace(batch, cold=cold)))
            self.changed()
        except Exception as error:
            lost = f"{type(error).__name__}: {error}"
            if lost != self._lost:
                say(f"limits stay as they are, as a batch can't be judged: {lost}")
            self._lost = lost
        return batch

    def pace(self, interval_ms: int | None) -> float:
        if not self._limiter.has_receivers_to_tell:
            return SELDOM
        return min(LATEST, max(SOONEST, (interval_ms or self._interval_ms) / 2000))

    def _pause(self) -> float:
        return self.pace(None)

    def _state(self) -> None:
        stating = self._stating.get()
        if stating is not None and self._limiter.has_receivers_to_tell:
            stating.state()


def receivers_begin_with(set_: str, has: str) -> str | None:
    """What spark.streaming.backpressure.initialRate has to be, so that receivers with a limit do
    not begin without; None: as it is. Executors take it from the context when they start.

    Args:
        set_: the live limits that sources begin with, as JSON.
        has: what it is.
    """
    try:
        first = receivers_first(rates_of(set_)) if set_ else None
        if first is None or (has and float(has) <= first):
            return None
    except ValueError:  # the one is told of when it is read, the other is Spark's to refuse
        return None
    return str(max(1, int(first)))


def _rate(settings: Mapping[str, Any], name: str) -> float | None:
    """A rate of Spark's settings; None: it is not set, or is none."""
    try:
        rate = float(settings[name])
    except (KeyError, ValueError):
        return None
    return rate if 0 < rate < math.inf else None
