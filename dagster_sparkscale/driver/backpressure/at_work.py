"""Backpressure in a driver: what is declared, the limits, and the threads that state them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.backpressure.rates import BadRates, Rates, rates_of
from dagster_sparkscale.driver.batches.history import History
from dagster_sparkscale.driver.batches.reports import Input
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.features import PrivateSpark
from dagster_sparkscale.driver.spark.jvm import Jvm, PerContext
from dagster_sparkscale.driver.spark.looks import EVERY as SELDOM
from dagster_sparkscale.driver.spark.looks import Look
from dagster_sparkscale.driver.wire import (
    BACKPRESSURE,
    DECLARED_FIRST_RATE,
    RATES,
    Batch,
    Limit,
)

from .limiter import Limiter
from .plan import BadPlan, plan_of
from .receiver_limits import ReceiverLimits

FIRST_RATE = "spark.streaming.backpressure.initialRate"
LARGEST_RATE = "spark.streaming.receiver.maxRate"
TASK_CPUS = "spark.task.cpus"
SPARKS_OWN = "spark.streaming.backpressure.enabled"
SOONEST, LATEST = 0.2, 2.0
"""Seconds between two looks at what changes with each batch."""


class Backpressure:
    """Limits what the sources of a driver take, as is declared and set. Safe for threads.

    Args:
        interval_ms: the declared batch interval.
        registered: how many executors are registered now, and how many cores they have; None: not
            known.
    """

    def __init__(
        self,
        interval_ms: int,
        rates: Rates,
        history: History,
        private: PrivateSpark,
        registered: Callable[[], tuple[int | None, int | None]],
    ) -> None:
        self._interval_ms, self._rates, self._history = interval_ms, rates, history
        self._registered = registered
        self._limiter = Limiter(interval_ms)
        self.troubles: tuple[str, ...] = ()
        """What is declared and can't be done; each for people."""
        self._lost: str | None = None
        self._stating = PerContext(lambda c: ReceiverLimits(Jvm(c), private, self._limiter))
        self._file = Look("the file with live limits", rates.keep)
        self._receivers = Look("live limits of receivers", self._state, self._pause)

    def begin(self, settings: Mapping[str, str]) -> None:
        """Take up what the driver was started with, before the program runs.

        What can't be read is said, and passed over: a stream is not kept from running by it.
        """
        plan, limits = None, self._rates.current()
        try:
            if text := settings.get(BACKPRESSURE):
                plan = plan_of(text)
        except BadPlan as error:
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
            receivers_most=_rate(settings, LARGEST_RATE),
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
        self.troubles = (*self.troubles, what)

    def start(self) -> None:
        """Start the threads that state the limits, once there is a SparkContext."""
        for look in (self._file, self._receivers):
            look.begin()

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What limits each source."""
        return self._limiter.limits()

    def changed(self) -> None:
        """State the limits now: others may be in force. Does not wait."""
        self._file.ask()
        self._receivers.ask()

    def completed(
        self, batch: Batch, interval_ms: int, inputs: Sequence[Input], queues: bool
    ) -> Batch:
        """Take a completed batch, as `queries.Completed`. Never raises: Spark's bus of events is
        waiting."""
        try:
            executors, self._limiter.cores = self._registered()
            batch = replace(batch, executors=executors)
            limit = self._limiter.limit_of(batch, interval_ms, inputs, queues)
            batch = replace(batch, limit=limit)
            seen = replace(batch, cold=self._history.would_be_cold(batch))
            self._limiter.completed(seen, interval_ms, inputs, queues)
            self.changed()
        except Exception as error:
            lost = f"{type(error).__name__}: {error}"
            if lost != self._lost:
                say(f"limits stay as they are, as a batch can't be judged: {lost}")
            self._lost = lost
        return batch

    def pace(self, interval_ms: int | None) -> float:
        """Seconds until what changes with each batch is looked at again.

        Args:
            interval_ms: of the batches; None: not known yet.
        """
        if not self._limiter.has_receivers_to_tell:
            return SELDOM
        return min(LATEST, max(SOONEST, (interval_ms or self._interval_ms) / 2000))

    def _pause(self) -> float:
        return self.pace(None)

    def _state(self) -> None:
        stating = self._stating.get()
        if stating is not None and self._limiter.has_receivers_to_tell:
            stating.state()


def _rate(settings: Mapping[str, Any], name: str) -> float | None:
    """A rate of Spark's settings; None: it is not set, or is none."""
    try:
        rate = float(settings[name])
    except (KeyError, ValueError):
        return None
    return rate if 0 < rate < math.inf else None
