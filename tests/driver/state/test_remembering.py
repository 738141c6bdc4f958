"""Key groups are remembered while the query runs, by a thread of their own."""

import threading

from dagster_sparkscale.driver.batches.history import History
from dagster_sparkscale.driver.batches.queries import Queries
from dagster_sparkscale.driver.batches.structured import StructuredStreaming
from dagster_sparkscale.driver.spark.private import PrivateSpark
from dagster_sparkscale.driver.wire import QueryState
from tests.waiting import HANGS, wait_for

STARTED = {"name": "counts", "id": "i", "runId": "run", "timestamp": "2026-01-31T12:00:00.000Z"}


class Known:
    """What is known of a query."""

    def __init__(self, state: QueryState | None = None, stateless: bool = False) -> None:
        self.state, self.stateless = state, stateless

    def begun_with(self) -> QueryState | None:
        return self.state

    def completed(self, state: QueryState) -> QueryState:
        return state


class Hanging(Known):
    """What is known of a query whose file system hangs until it is let go."""

    def __init__(self) -> None:
        super().__init__(QueryState(partitions=4))
        self.asked, self.let_go = 0, threading.Event()

    def remember(self) -> Known:
        self.asked += 1
        assert self.let_go.wait(HANGS)
        return Remembered()


class Remembered(Known):
    """The same query once its key groups are remembered."""

    def completed(self, state: QueryState) -> QueryState:
        return QueryState(partitions=state.partitions, key_groups=16)


def test_of_a_file_system_that_hangs_there_is_one_thread_however_many_batches_there_are():
    queries = Queries(History(), 1000)
    streaming = StructuredStreaming(queries, PrivateSpark())
    queries.started(STARTED)
    known = Hanging()
    queries.set_known("run", known)
    streaming._known["run"] = known
    streaming._remember_soon()
    wait_for("it to hang", lambda: known.asked)
    threads = threading.active_count()
    for _ in range(20):  # batches
        streaming._remember_soon()
    assert (known.asked, threading.active_count()) == (1, threads)
    known.let_go.set()
    wait_for("it to be remembered", lambda: queries.listed({})[0].state.key_groups == 16)
    wait_for("the thread to end", lambda: threading.active_count() < threads)
    streaming._remember_soon()
    assert (known.asked, threading.active_count()) == (1, threads - 1)


def test_a_query_is_stateless_until_a_batch_tells_of_state():
    queries = Queries(History(), 1000)
    queries.started(STARTED)
    assert not queries.listed({})[0].stateless
    queries.set_known("run", Known(stateless=True))
    assert queries.listed({})[0].stateless
    queries.set_known("run", Known(QueryState(partitions=4), stateless=True))
    assert not queries.listed({})[0].stateless
