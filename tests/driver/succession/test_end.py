"""The end of one run between two batches, with the JVM played: whose end it is, and what those are
told who wait for any query of its manager."""

from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.succession import end as module
from dagster_sparkscale.driver.succession.end import EndedForGood, NotEnded, end
from dagster_sparkscale.driver.succession.passages import Passages


class Query:
    """The JVM's StreamingQuery."""

    def __init__(self, run: str) -> None:
        self.run, self.active, self.error = run, True, False

    def runId(self) -> Any:
        return SimpleNamespace(toString=lambda: self.run)

    def isActive(self) -> bool:
        return self.active

    def exception(self) -> Any:
        return SimpleNamespace(isDefined=lambda: self.error)


class Manager:
    """The JVM's StreamingQueryManager, which keeps the first end, and the first error."""

    def __init__(self, *queries: Query) -> None:
        self.queries, self.ended, self.died = list(queries), False, False

    def active(self) -> list[Query]:
        return [each for each in self.queries if each.active]

    def stop(self, query: Query, error: bool = False) -> None:
        query.active, query.error = False, error
        self.ended, self.died = True, self.died or error

    def awaitAnyTermination(self, milliseconds: int) -> bool:
        assert milliseconds > 0
        if self.died:
            raise RuntimeError("what it died of")
        return self.ended

    def resetTerminated(self) -> None:
        self.ended = self.died = False


class Ending:
    """Ends the run after some steps, unless something else does."""

    scene: "Scene"

    def __init__(self, _context: Any, query: Query, _completed: Any) -> None:
        self.query, self.deactivated, self.steps = query, False, 0

    def step(self) -> bool:
        self.steps += 1
        self.scene.meanwhile()
        if self.query.active and self.steps >= self.scene.takes:
            self.deactivated = True
            self.scene.manager.stop(self.query)
            self.scene.at_the_end()
        return not self.query.active

    def give_up(self) -> bool:
        self.scene.let_go = True
        return self.query.active


class Scene:
    def __init__(self) -> None:
        self.one, self.other = Query("run 1"), Query("other")
        self.manager = Manager(self.one, self.other)
        self.passages = Passages()
        self.takes, self.told = 2, 0
        self.meanwhile: Any = lambda: None
        self.at_the_end: Any = lambda: None
        self.stopping = self.let_go = False
        self.known: dict[str, Any] = {}
        self.handle: Any = SimpleNamespace(lastProgress="batch 7")

    def end(self, within: float = 60.0) -> Any:
        def ended() -> None:
            self.told += 1

        session = SimpleNamespace(
            _jsparkSession=SimpleNamespace(streams=lambda: self.manager), _sc=None
        )
        started = SimpleNamespace(
            new=SimpleNamespace(session=session),
            ended=ended,
            handle=self.handle,
        )
        run: Any = SimpleNamespace(
            started=started, handle=self.one, run="run 1", query="query", manager=1
        )
        runs: Any = SimpleNamespace(of=lambda manager: dict(self.known))
        return end(self.passages, runs, run, within, lambda: self.stopping)


@pytest.fixture
def scene(monkeypatch) -> Scene:
    it = Scene()
    monkeypatch.setattr(module, "Ending", type("Ending", (Ending,), {"scene": it}))
    monkeypatch.setattr(module, "POLL", 0.0)
    return it


def test_spark_tells_nobody_of_an_end_of_ours(scene):
    passage = scene.end()
    assert (passage.phase, passage.progress) == ("between", "batch 7")
    assert not scene.one.active and scene.told == 1
    assert not scene.manager.ended
    assert not scene.passages.ends(1).ended


def test_a_progress_that_can_t_be_read_keeps_it_from_nothing(scene):
    scene.handle = SimpleNamespace()
    passage = scene.end()
    assert (passage.phase, passage.progress, scene.told) == ("between", None, 1)


def test_where_spark_fails_after_the_end_its_program_learns_of_it(scene):
    """Or it would wait for good for a query that nobody starts again."""

    def fails() -> None:
        raise RuntimeError("Spark gave no answer")

    scene.manager.resetTerminated = fails
    why = "it was ended, and then: Spark gave no answer"
    with pytest.raises(EndedForGood, match=why):
        scene.end()
    passage = scene.passages.of("run 1")
    assert (passage.phase, passage.error) == ("over", why)
    assert not scene.passages.ending(1)


def test_an_earlier_end_is_told_on(scene):
    scene.manager.ended = True
    scene.end()
    assert scene.manager.ended


def test_an_earlier_end_that_the_program_has_reset_meanwhile_is_told_no_more(scene):
    scene.manager.ended = True

    def reset():
        if scene.manager.ended:
            scene.manager.resetTerminated()
            scene.passages.forget_ends(1)

    scene.meanwhile = reset
    scene.end()
    assert not scene.manager.ended and not scene.passages.ends(1).ended


def test_an_earlier_error_is_told_on(scene):
    scene.manager.stop(scene.other, error=True)
    scene.end()
    assert scene.manager.died


@pytest.mark.parametrize("error", [False, True])
def test_another_that_ends_in_the_same_moment_is_told_of(scene, error):
    scene.at_the_end = lambda: scene.manager.stop(scene.other, error)
    scene.end()
    ends = scene.passages.ends(1)
    assert scene.manager.died if error else (ends.ended and ends.query is scene.other)


def test_one_that_was_started_meanwhile_and_ends_is_told_of(scene):
    late = Query("late")

    def comes_and_goes():
        scene.known["late"] = SimpleNamespace(handle=late)
        late.active = False

    scene.at_the_end = comes_and_goes
    scene.end()
    assert scene.passages.ends(1).query is late


def test_one_that_ended_long_ago_is_not(scene):
    scene.known["old"] = SimpleNamespace(handle=Query("old"))
    scene.known["old"].handle.active = False
    scene.end()
    assert not scene.passages.ends(1).ended


@pytest.mark.parametrize("error", [False, True])
def test_one_that_ends_of_itself_is_none_of_ours(scene, error):
    scene.takes = 99
    scene.meanwhile = lambda: scene.manager.stop(scene.one, error)
    with pytest.raises(NotEnded, match="has ended of itself meanwhile, or was stopped"):
        scene.end()
    assert scene.passages.of("run 1").phase == "over"
    assert scene.manager.ended and scene.told == 0


def test_one_that_its_program_stops_in_that_moment_is_none_of_ours(scene):
    scene.at_the_end = lambda: scene.passages.want_stop(scene.passages.of("run 1"))
    with pytest.raises(NotEnded, match="stopped by its program"):
        scene.end()
    assert scene.passages.of("run 1").phase == "over"
    assert scene.manager.ended


def test_a_batch_that_takes_too_long_goes_on(scene):
    scene.takes = 10**9
    with pytest.raises(NotEnded, match=r"its batch in progress has not ended in 0\.01 s"):
        scene.end(0.01)
    assert scene.one.active and scene.passages.of("run 1") is None


def test_a_driver_that_is_asked_to_stop_lets_it_go_on_to_its_own_end(scene):
    scene.takes = 10**9
    scene.stopping = True
    with pytest.raises(NotEnded, match="asked to stop before anything was touched"):
        scene.end()
    assert scene.one.active and scene.passages.of("run 1") is None


def test_what_can_t_be_asked_is_given_up(scene):
    def gone():
        raise ConnectionError("no JVM")

    scene.meanwhile = gone
    with pytest.raises(ConnectionError):
        scene.end()
    assert scene.passages.of("run 1").phase == "over"
    assert scene.let_go  # or the query would wait for good
