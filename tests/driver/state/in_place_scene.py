"""A driver that may change the state of its query in place; without Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.batches.tracked import NewQuery
from dagster_sparkscale.driver.state import hook, in_place, layout
from dagster_sparkscale.driver.state.beside.limits import Limits
from dagster_sparkscale.driver.state.hook import Declared, StateHook
from dagster_sparkscale.driver.state.in_place import InPlaceChanges
from dagster_sparkscale.driver.succession.passages import Passages
from tests.driver.backend import Cluster, control_of
from tests.driver.state.disk import Disk, checkpoint
from tests.driver.state.played import PLAN, Spark
from tests.waiting import wait_for


class Handle:
    """The JVM's StreamingQuery of the run that comes next."""

    _jsq: Any

    def __init__(self) -> None:
        self._jsq = self

    def runId(self) -> Any:
        return SimpleNamespace(toString=lambda: "run 2")


class Scene:
    """A query `counts` that runs, and a driver that may change its state in place."""

    def __init__(self, place: Any, monkeypatch: pytest.MonkeyPatch, **spark: Any) -> None:
        checkpoint(place)
        self.disk = Disk(place)
        self.spark = Spark(self.disk, **spark)
        monkeypatch.setattr(hook, "Folder", lambda _session, _place: self.disk)
        monkeypatch.setattr(hook, "_pass_over", lambda _query, batch: self.disk.pass_over(batch))
        monkeypatch.setattr(in_place, "end", self._end)
        self.passages, self.ends, self.starts = Passages(), 0, 0
        self.not_ended: Exception | None = None
        self.why: dict[str, str | None] = {"fixed": None, "now": None}
        self.fails: Exception | None = None
        self.stopping = False
        its = StateHook("4.3.0", Declared(8), lambda: self.stopping)
        new = NewQuery(self.spark, {"checkpointLocation": str(place), "queryName": "counts"})
        handle = SimpleNamespace(recentProgress=[])
        started: Any = SimpleNamespace(new=new, label=lambda: "counts", handle=handle)
        self.run = SimpleNamespace(
            started=started,
            run="run 1",
            why_not=lambda: self.why["fixed"],
            why_not_now=lambda: self.why["now"],
            again=self._again,
        )
        runs: Any = SimpleNamespace(active=lambda: {"counts": self.run})
        self.its = its
        self.cluster = Cluster()
        self.executors = control_of(self.cluster)
        self.changes = InPlaceChanges(
            *(its, runs, self.passages, lambda: self.stopping, lambda: self.slots),
            executors=self.executors,
        )
        self.slots: int | None = None

    def _end(self, passages: Passages, *_: Any) -> Any:
        if self.not_ended is not None:
            raise self.not_ended
        self.ends += 1
        passage = passages.begin("run 1", "query", 1, "handle")
        passages.ended(passage)
        return passage

    def _again(self) -> Handle:
        if self.fails is not None:
            raise self.fails
        self.starts += 1
        return Handle()

    def change(self, plan: Any = PLAN, beside: Limits | None = None) -> Any:
        """What a change comes to."""
        with self.spark.playing():
            self.changes.ask(plan, 60.0, beside)
            wait_for("the change to be over", lambda: not self.changes.busy)
        return next(each for each in self.its.reconfigurations if each.id == plan.id)

    @property
    def partitions(self) -> int | None:
        last = max(self.disk.names("offsets"), key=int)
        entry = self.disk.read(f"offsets/{last}") or b""
        return layout.bound(entry.decode(), "offsets").partitions
