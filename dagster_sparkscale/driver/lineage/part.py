"""Lineage in the agent: an OpenLineage run of this driver, with what its queries read and write."""

import json
import time
from collections.abc import Mapping
from typing import Any

from dagster_sparkscale.driver.batches.tracked import NewQuery
from dagster_sparkscale.driver.ending.end_report import LineageEnd
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.part import Core, Part
from dagster_sparkscale.driver.settings import LINEAGE, LINEAGE_RECORD
from dagster_sparkscale.driver.spark.features import SOURCES_READ
from dagster_sparkscale.driver.spark.plans import streaming_sources

from .datasets import Dataset, read_from, written_to
from .events import ABORT, COMPLETE, FAIL, run_id
from .plan import LineagePlan, plan_of
from .telling import Teller

WITHIN = 5.0
"""Seconds that the driver's end waits for the server."""
_PARENT = ("parent", "rootParent")
"""How the settings begin, after `spark.openlineage.`, by which OpenLineage's listener in Spark says
whose runs its own are part of."""

_KINDS: Mapping[str, str] = {"completed": COMPLETE, "failed": FAIL, "cut": ABORT}


class LineagePart(Part):
    """Tells an OpenLineage server of this driver's run, where the declaration names one."""

    def __init__(self, core: Core) -> None:
        self._options, self._private = core.options, core.private
        self._teller: Teller | None = None
        self._default_fs = "file:///"

    def properties(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        if (found := self._run_of(settings)) is None:
            return {}
        plan, run = found
        ours = {"JobNamespace": plan.namespace, "JobName": plan.job, "RunId": run}
        every = {
            f"spark.openlineage.{whose}{field}": value
            for whose in _PARENT
            for field, value in ours.items()
        }
        return {} if every.keys() & settings.keys() else every

    def _run_of(self, settings: Mapping[str, str]) -> tuple[LineagePlan, str] | None:
        """The plan of lineage and the id of this driver's run; None: none is declared."""
        plan = plan_of(json.loads(settings.get(LINEAGE, "{}")))
        record = settings.get(LINEAGE_RECORD) or self._options.stream
        return None if plan is None else (plan, run_id(record, self._options.epoch))

    def begin(self, context: Any) -> None:
        if (found := self._run_of(dict(context.getConf().getAll()))) is not None:
            default_fs = context._jsc.hadoopConfiguration().get("fs.defaultFS")
            self._default_fs = default_fs or self._default_fs
            self._teller = Teller(*found, str(context.version), time.time())

    def start(self) -> None:
        if self._teller is not None:
            self._teller.begin()

    def before_query(self, query: NewQuery) -> None:
        if self._teller is None:
            return
        try:
            self._teller.note(self._read_by(query), self._written_by(query))
        except Exception as error:  # of which no query is to die
            say(f"lineage lacks a query: {type(error).__name__}: {error}")

    def _read_by(self, query: NewQuery) -> list[Dataset]:
        nothing: list[tuple[str, Mapping[str, str]]] = []
        sources = self._private.use(SOURCES_READ, lambda: streaming_sources(query.frame), nothing)
        return [
            dataset
            for format, options in sources
            for dataset in read_from(format, options, self._default_fs)
        ]

    def _written_by(self, query: NewQuery) -> tuple[Dataset, ...]:
        return written_to(query.format, query.options, self._default_fs)

    def ended(self, outcome: str, why: str | None) -> Mapping[str, Any]:
        if self._teller is None:
            return {}
        kind = _KINDS[outcome]
        return {"lineage": LineageEnd(kind, self._teller.end(kind, time.time(), why, WITHIN))}
