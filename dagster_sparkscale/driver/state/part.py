"""The state of queries in the agent: what is done for it before a query starts, and its changes."""

import json
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dagster_sparkscale.driver.batches.tracked import NewQuery, StartedQuery
from dagster_sparkscale.driver.part import Core, Part
from dagster_sparkscale.driver.request import BadRequest, Request, shown
from dagster_sparkscale.driver.spark import task_slots
from dagster_sparkscale.driver.spark.features import AGAIN
from dagster_sparkscale.driver.spark.releases import is_before
from dagster_sparkscale.driver.succession import handles, writers
from dagster_sparkscale.driver.succession.passages import Passages
from dagster_sparkscale.driver.succession.runs import Runs

from .beside.limits import BadLimits, limits_of
from .hook import Known, StateHook, declared
from .in_place import InPlaceChanges
from .plans import BadStatePlan, plan_of
from .reconfigure import LEAST

LONGEST = 86400.0
"""Seconds that a batch in progress may be waited for, at most."""


class StatePart(Part):
    """Looks after the state of queries, from the first SparkContext on."""

    def __init__(self, core: Core) -> None:
        self._admission, self._private = core.admission, core.private
        self._executors = core.executors
        self._hook: StateHook | None = None
        self._runs = Runs(core.private)
        self._changes: InPlaceChanges | None = None
        self._never = "its driver has not begun yet"
        """Why no query can be changed in place, where `_changes` is None."""
        self._lock = threading.Lock()
        self._started: list[StartedQuery] = []
        self.routes = {("PUT", "/v1/state"): self._change}

    def begin(self, context: Any) -> None:
        settings = declared(dict(context.getConf().getAll()))
        self._hook = StateHook(str(context.version), settings, self._stopping)
        if settings.key_groups is None:
            self._never = "its driver was started when the stream declared no state"
        elif is_before(LEAST, version := str(context.version)):
            self._never = f"its Spark is {version}, and it takes {LEAST} or newer"
        else:
            self._never = f"its Spark lacks {AGAIN.name}"
            self._private.use(AGAIN, lambda: self._prepare(context), None)

    def _prepare(self, context: Any) -> None:
        """Have queries started so that they can be ended and started again."""
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        assert self._hook is not None
        passages = Passages()
        handles.install(passages)
        writers.watch(DataStreamWriter)
        self._changes = InPlaceChanges(
            *(self._hook, self._runs, passages, self._stopping),
            slots=lambda: task_slots.registered(context, self._private),
            executors=self._executors,
        )

    def _stopping(self) -> bool:
        return self._admission.phase in ("stopping", "ended")

    def starting(self, query: NewQuery) -> AbstractContextManager[Any]:
        if self._hook is None or self._changes is None:
            return nullcontext()
        return self._hook.starting(query)

    def before_query(self, query: NewQuery) -> Known | None:
        assert self._hook is not None
        return self._hook.before_start(query)

    def query_started(self, started: StartedQuery) -> None:
        with self._lock:
            running = [each for each in self._started if each.label() is not None]
            self._started = [*running, started]  # the agent's threads read it
        if self._changes is not None and (run := self._runs.note(started)) is not None:
            self._changes.noted(run)

    @property
    def busy(self) -> bool:
        return self._changes is not None and self._changes.busy

    def answer(self) -> Mapping[str, Any]:
        return {
            "reconfigurations": self._hook.reconfigurations if self._hook else (),
            "in_place": self._why_not(),
            "beside": self._changes.why_not_beside() if self._changes else {},
        }

    def _why_not(self) -> Mapping[str, str | None]:
        """The queries that run, and why each can't be changed in place; None: it can."""
        if self._changes is not None and self._private.has(AGAIN):
            return self._changes.why_not()
        labels = (each.label() for each in self._started)
        return {label: self._never for label in labels if label is not None}

    def _change(self, request: Request) -> None:
        """Take a plan; the answer shows its changes as they begin.

        Raises:
            BadRequest: it is none, or can't be carried out in place; nothing was touched.
            NotReady: the program does not run, or another plan is being carried out.
        """
        try:
            plan = plan_of(json.dumps(request.fields.get("plan")))
        except BadStatePlan as error:
            raise BadRequest(f"plan: {error}") from None
        if not plan.queries:
            raise BadRequest("plan.queries: must name at least one query")
        try:
            beside = limits_of(request.fields.get("beside"))
        except BadLimits as error:
            raise BadRequest(str(error)) from None
        within: Any = request.fields.get("within")
        if type(within) not in (int, float) or not 0 < within <= LONGEST:
            raise BadRequest(
                f"within: {shown(within)}: must be seconds, above 0 and at most {LONGEST:g}"
            )
        with self._admission.of_spark(request.operation, "the state of queries can't be changed"):
            if self._changes is None or not self._private.has(AGAIN):
                raise BadRequest(f"in place: {self._never}")
            self._changes.ask(plan, within, beside)
