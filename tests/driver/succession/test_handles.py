"""What the handles of a program tell while a query is ended and started again, without Spark: the
classes of PySpark are patched as they are, and the objects of the JVM are played."""

import threading
from typing import Any

import pytest

from dagster_sparkscale.driver.succession import handles
from dagster_sparkscale.driver.succession.passages import Passages
from tests.waiting import HANGS, wait_for


class Java:
    """The JVM's StreamingQuery of one run."""

    def __init__(self, run: str) -> None:
        self.run, self.over, self.error = run, threading.Event(), None
        self.stops = 0
        self.progress: Any = None

    def runId(self) -> Any:
        return self

    def toString(self) -> str:
        return self.run

    def isActive(self) -> bool:
        return not self.over.is_set()


def made() -> tuple[type, type, type]:
    """Classes that do by played objects what PySpark's do by the JVM's; new ones for each test."""

    class StreamingQuery:
        id = "query"

        def __init__(self, jsq: Java) -> None:
            self._jsq = jsq

        @property
        def runId(self) -> str:
            return self._jsq.run

        @property
        def lastProgress(self) -> Any:
            return self._jsq.progress

        @property
        def isActive(self) -> bool:
            return not self._jsq.over.is_set()

        def awaitTermination(self, timeout: Any = None) -> Any:
            if timeout is not None and (not isinstance(timeout, (int, float)) or timeout <= 0):
                raise ValueError("timeout")
            if timeout is not None and timeout < 0.001:
                raise ValueError("requirement failed: Timeout has to be positive")
            ended = self._jsq.over.wait(timeout)
            if ended and self._jsq.error:
                raise self._jsq.error
            return None if timeout is None else ended

        def processAllAvailable(self) -> None:
            self._jsq.over.wait(0.05)

        def stop(self) -> None:
            self._jsq.stops += 1
            self._jsq.over.set()

        def exception(self) -> Any:
            return self._jsq.error

    class StreamingQueryManager:
        def __init__(self, jsqm: "Manager") -> None:
            self._jsqm = jsqm

        @property
        def active(self) -> list[Any]:
            return [StreamingQuery(each) for each in self._jsqm.queries if not each.over.is_set()]

        def get(self, id: str) -> Any:
            return next(iter(self.active), None)

        def awaitAnyTermination(self, timeout: Any = None) -> Any:
            if timeout is not None and (not isinstance(timeout, (int, float)) or timeout <= 0):
                raise ValueError("timeout")
            assert timeout is not None, "it is asked for a while at a time"
            return self._jsqm.ended.wait(timeout)

        def resetTerminated(self) -> None:
            self._jsqm.ended.clear()

    class Listener:
        def __init__(self) -> None:
            self.told: list[str] = []

        def onQueryStarted(self, event: Any) -> None:
            self.told.append("started")

        def onQueryTerminated(self, event: Any) -> None:
            self.told.append("terminated")

    return StreamingQuery, StreamingQueryManager, Listener


class Manager:
    """The JVM's StreamingQueryManager."""

    def __init__(self, *queries: Java) -> None:
        self.queries, self.ended = queries, threading.Event()


class Scene:
    """A query that runs, and what its program has of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passages = Passages()
        query, manager, _ = made()
        monkeypatch.setattr(handles, "identity", lambda java: 1)
        monkeypatch.setattr(handles, "SLICE", 0.01)
        monkeypatch.setattr(handles, "_error", RuntimeError)
        handles._patch_query(query, self.passages)
        handles._patch_manager(manager, query, self.passages)
        self.first, self.second = Java("run 1"), Java("run 2")
        self.java = Manager(self.first)
        self.handle, self.manager = query(self.first), manager(self.java)
        self.passage: Any = None
        self.threads: list[tuple[threading.Thread, list[Any]]] = []

    def begin(self) -> None:
        self.passage = self.passages.begin("run 1", "query", 1, self.first)

    def end(self) -> None:
        """The run is ended by us."""
        self.first.over.set()
        self.java.ended.set()
        self.java.ended.clear()
        self.passages.settle(1)
        self.passages.ended(self.passage)

    def succeed(self) -> None:
        self.java.queries = (self.second,)
        self.passages.succeed(self.passage, "run 2", self.second)

    def waiting(self, call: Any, *args: Any) -> list[Any]:
        """What a call on a thread of its own has come to: empty while it waits."""
        came: list[Any] = []

        def run() -> None:
            try:
                came.append(call(*args))
            except Exception as error:
                came.append(error)

        threading.Thread(target=run, daemon=True).start()
        return came


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def soon(came: list[Any]) -> Any:
    wait_for("a call to return", lambda: came)
    return came[0]


def stays(came: list[Any]) -> bool:
    threading.Event().wait(0.1)
    return not came


def test_without_any_change_all_is_as_it_was(scene):
    assert scene.handle.isActive and scene.handle.awaitTermination(0.01) is False
    assert scene.manager.awaitAnyTermination(0.02) is False
    for wrong in ("soon", 0, -1):
        with pytest.raises(ValueError, match="timeout"):
            scene.handle.awaitTermination(wrong)
    with pytest.raises(ValueError, match="timeout"):
        scene.manager.awaitAnyTermination(-1)
    scene.first.over.set()
    scene.java.ended.set()
    assert scene.handle.awaitTermination() is None
    assert scene.manager.awaitAnyTermination() is None
    assert scene.manager.awaitAnyTermination(1) is True


def test_who_waits_passes_over_an_end_of_ours_to_the_next(scene):
    one, any_ = (
        scene.waiting(scene.handle.awaitTermination),
        scene.waiting(scene.manager.awaitAnyTermination),
    )
    scene.begin()
    assert scene.handle.isActive
    scene.end()
    assert stays(one) and stays(any_)
    assert scene.handle.isActive and scene.handle.awaitTermination(0.01) is False
    assert [each.runId for each in scene.manager.active] == ["run 1"]
    assert scene.manager.get("query") is not None
    scene.succeed()
    assert stays(one) and stays(any_)
    assert scene.handle.runId == "run 2" and scene.handle.isActive
    scene.second.over.set()
    scene.java.ended.set()
    assert soon(one) is None and soon(any_) is None
    assert not scene.handle.isActive


def test_who_waits_is_told_of_an_end_that_turns_out_not_to_be_ours(scene):
    one = scene.waiting(scene.handle.awaitTermination, HANGS)
    any_ = scene.waiting(scene.manager.awaitAnyTermination, HANGS)
    scene.begin()
    scene.first.over.set()
    scene.java.ended.set()
    assert stays(one) and stays(any_)  # whose it is is not known yet
    scene.passages.give_up(scene.passage)
    assert soon(one) is True and soon(any_) is True
    assert not scene.handle.isActive


def test_what_it_has_died_of_is_raised(scene):
    scene.first.error = KeyError("no topic")
    one = scene.waiting(scene.handle.awaitTermination)
    scene.begin()
    scene.first.over.set()
    assert isinstance(soon(one), KeyError)


def test_that_it_can_t_be_started_again_is_raised(scene):
    one = scene.waiting(scene.handle.awaitTermination)
    any_ = scene.waiting(scene.manager.awaitAnyTermination)
    scene.begin()
    scene.end()
    scene.passages.give_up(scene.passage, "it could not be started")
    assert str(soon(one)) == str(soon(any_)) == "it could not be started"
    assert str(scene.handle.exception()) == "it could not be started"
    assert not scene.handle.isActive
    scene.manager.resetTerminated()
    assert scene.manager.awaitAnyTermination(0.02) is False


def test_one_that_runs_on_was_never_ended(scene):
    one = scene.waiting(scene.handle.awaitTermination)
    scene.begin()
    scene.passages.withdraw(scene.passage)
    assert stays(one) and scene.handle.isActive
    scene.first.over.set()
    assert soon(one) is None


def test_another_s_end_meanwhile_is_told_to_who_waits_for_any(scene):
    any_ = scene.waiting(scene.manager.awaitAnyTermination)
    scene.begin()
    scene.first.over.set()
    other = scene.handle.__class__(Java("other"))
    other._jsq.over.set()
    scene.passages.settle(1, other)
    scene.passages.ended(scene.passage)
    assert soon(any_) is None


def test_another_s_end_is_told_at_once_while_the_one_that_is_to_end_runs_on(scene):
    """Its batch may take half an hour."""
    any_ = scene.waiting(scene.manager.awaitAnyTermination)
    scene.begin()
    scene.java.ended.set()
    assert soon(any_) is None
    assert scene.passage.phase == "ending"


@pytest.mark.parametrize("left", [0.0, 0.0004])
def test_who_waits_for_a_time_that_is_over_when_the_next_run_comes_is_told_so(
    scene, monkeypatch, left
):
    """PySpark refuses to wait for no time."""
    scene.begin()
    scene.end()
    times = iter([60.0])
    monkeypatch.setattr(handles, "_left", lambda deadline: next(times, left))
    waited = scene.waiting(scene.handle.awaitTermination, 60.0)
    assert stays(waited)
    scene.succeed()
    assert soon(waited) is False


def test_while_it_is_not_known_whose_end_it_is_it_counts_as_active(scene, monkeypatch):
    """As where its sources take long to close."""
    monkeypatch.setattr(handles, "VERDICT", 0.01)
    scene.begin()
    scene.first.over.set()
    assert scene.handle.isActive
    assert [each.runId for each in scene.manager.active] == ["run 1"]
    scene.passages.give_up(scene.passage)
    assert not scene.handle.isActive and scene.manager.active == []


def test_its_last_progress_stays_until_the_next_run_has_one(scene):
    assert scene.handle.lastProgress is None
    scene.first.progress = "batch 7"
    scene.begin()
    scene.end()
    assert scene.handle.lastProgress == "batch 7"
    scene.passage.progress = scene.handle.lastProgress
    scene.succeed()
    assert scene.handle.lastProgress == "batch 7"
    assert [each.lastProgress for each in scene.manager.active] == ["batch 7"]
    again = scene.passages.begin("run 2", "query", 1, scene.second)
    scene.passages.ended(again)
    again.progress = scene.handle.lastProgress
    third = Java("run 3")
    scene.passages.succeed(again, "run 3", third)
    assert scene.handle.lastProgress == "batch 7"
    assert scene.passage.progress is None  # it is kept once
    third.progress = "batch 9"
    assert scene.handle.lastProgress == "batch 9"


class TestAStopOfTheProgram:
    def test_in_the_moment_in_which_we_end_it_is_heeded(self, scene, monkeypatch):
        """It was asked for before we began, and we have taken the end for our own."""
        stop = scene.first.over.set

        def both() -> None:
            stop()
            if scene.passage is None:
                scene.begin()
                scene.end()

        monkeypatch.setattr(scene.first.over, "set", both)
        stopped = scene.waiting(scene.handle.stop)
        assert stays(stopped)
        assert scene.passage.stop_wanted
        scene.passages.give_up(scene.passage)
        assert soon(stopped) is None and not scene.handle.isActive

    def test_between_two_runs_waits_for_the_next_and_stops_it(self, scene):
        scene.begin()
        scene.end()
        stopped = scene.waiting(scene.handle.stop)
        assert stays(stopped)
        assert scene.passage.stop_wanted
        scene.succeed()
        assert soon(stopped) is None
        assert scene.second.stops == 1 and not scene.handle.isActive

    def test_before_the_end_ends_the_run_at_once(self, scene):
        scene.begin()
        stopped = scene.waiting(scene.handle.stop)
        wait_for("the run to be stopped", lambda: scene.first.stops)
        assert scene.passage.stop_wanted
        scene.passages.give_up(scene.passage)
        assert soon(stopped) is None
        assert not scene.handle.isActive


def test_all_that_is_available_is_processed_by_the_next_run_too(scene):
    scene.begin()
    scene.end()
    processed = scene.waiting(scene.handle.processAllAvailable)
    assert stays(processed)
    scene.succeed()
    assert soon(processed) is None


def test_it_is_listed_all_the_time(scene):
    """Also in the moment in which it has ended and nobody knows yet whose end that is."""
    scene.begin()
    scene.first.over.set()
    listed = scene.waiting(lambda: [each.runId for each in scene.manager.active])
    active = scene.waiting(lambda: scene.handle.isActive)
    assert stays(listed) and stays(active)
    scene.passages.ended(scene.passage)
    assert soon(listed) == ["run 1"] and soon(active) is True
    scene.succeed()
    assert [each.runId for each in scene.manager.active] == ["run 2"]
    assert scene.manager.get("query").runId == "run 2"
    assert scene.manager.get("another") is None
