"""Real-time queries in the agent: a query waits for the task slots that the declaration says."""

import time
from collections.abc import Mapping
from typing import Any

from dagster_sparkscale.driver.batches.tracked import NewQuery
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.part import Core, Part
from dagster_sparkscale.driver.spark import task_slots

from . import slots

POLL = 0.5
"""Seconds between two looks at the slots that have registered."""


class RealTimePart(Part):
    """Holds queries back until there are slots for all of their tasks.

    It holds back each query of a stream that declares slots, whatever its trigger: the driver can't
    know the trigger of a query that does not exist yet.
    """

    def __init__(self, core: Core) -> None:
        self._admission, self._private = core.admission, core.private
        self._declared: tuple[int, float] | None = None
        self._context: Any = None
        self._waits: str | None = None

    def begin(self, context: Any) -> None:
        self._context = context
        self._declared = slots.declared(dict(context.getConf().getAll()))

    def before_query(self, query: NewQuery) -> None:
        """Return once the declared slots have registered.

        Raises:
            NotEnoughSlots: they have not, in the declared time.
            Stopped: the driver was asked to stop by then.
        """
        if self._declared is None:
            return
        self._context = query.session._sc
        needed, seconds = self._declared
        name = next((v for k, v in query.options.items() if k.lower() == "queryname"), None)
        try:
            self._wait(f"query {name!r}" if name else "a query", needed, seconds)
        finally:
            self._waits = None

    def _wait(self, query: str, needed: int, seconds: float) -> None:
        begun = time.monotonic()
        while (there := self._registered()) is not None and there < needed:
            left = begun + seconds - time.monotonic()
            if self._admission.phase in ("stopping", "ended"):
                raise slots.Stopped(query)
            if left <= 0:
                raise slots.NotEnoughSlots(query, needed, there, seconds)
            if self._waits is None:
                say(slots.waiting(query, needed, there, left))
            self._waits = slots.waiting(query, needed, there, left)
            time.sleep(min(POLL, left))
        if self._waits is not None:
            say(f"{query} starts: {there} task slots have registered")

    def _registered(self) -> int | None:
        """Task slots of the executors that have registered and stay; None: Spark does not tell."""
        return task_slots.registered(self._context, self._private)

    def died(self, error: BaseException | str) -> Mapping[str, Any]:
        if isinstance(error, slots.NotEnoughSlots):
            return {"slots": error.slots}
        if slots.REFUSED not in (text := str(error)):
            return {}
        try:
            there = self._registered()
        except Exception:  # Spark may have ended
            there = None
        lacking = slots.lacking(text, there)
        return {} if lacking is None else {"slots": lacking}

    def answer(self) -> Mapping[str, Any]:
        return {"waits_for_slots": self._waits}
