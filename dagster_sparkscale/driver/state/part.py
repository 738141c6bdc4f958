"""The state of queries in the agent: what is done for it before a query starts, and its changes."""

from collections.abc import Mapping
from typing import Any

from dagster_sparkscale.driver.batches.tracked import NewQuery
from dagster_sparkscale.driver.part import Core, Part

from .hook import Known, StateHook, declared


class StatePart(Part):
    """Looks after the state of queries, from the first SparkContext on."""

    def __init__(self, core: Core) -> None:
        self._admission = core.admission
        self._hook: StateHook | None = None

    def begin(self, context: Any) -> None:
        settings = dict(context.getConf().getAll())
        self._hook = StateHook(
            str(context.version),
            declared(settings),
            lambda: self._admission.phase in ("stopping", "ended"),
        )

    def before_query(self, query: NewQuery) -> Known | None:
        assert self._hook is not None
        return self._hook.before_start(query)

    def answer(self) -> Mapping[str, Any]:
        return {"reconfigurations": self._hook.reconfigurations if self._hook else ()}
