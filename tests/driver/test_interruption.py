"""Where Spark lacks what ends a query between two batches, its own stop has to do."""

from types import SimpleNamespace
from typing import Any

from dagster_sparkscale.driver.ending.end_report import StoppedQuery
from dagster_sparkscale.driver.ending.stopper import Stopper


class Query:
    """A query of a Spark that keeps its inside to itself."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.stopped = 0

    def runId(self) -> Any:
        return SimpleNamespace(toString=lambda: f"run of {self._name}")

    def name(self) -> str:
        return self._name

    def stop(self) -> None:
        self.stopped += 1


def test_each_is_stopped_once_and_nothing_is_claimed_of_how(capfd: Any) -> None:
    queries = [Query("clicks"), Query("orders")]
    agent: Any = SimpleNamespace(
        structured=SimpleNamespace(managers=lambda: [SimpleNamespace(active=lambda: queries)]),
        queries=SimpleNamespace(completed_since=lambda run, moment: False),
    )
    stopper = Stopper(agent, lambda _: None)
    for _ in range(2):
        assert stopper._finish_queries(0.0) == 0
    assert [query.stopped for query in queries] == [1, 1]
    assert list(stopper._outcomes.values()) == [StoppedQuery("clicks"), StoppedQuery("orders")]
    assert "".join(capfd.readouterr()).count("a query is interrupted") == 2
