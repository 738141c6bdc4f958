"""When what a copy has come to is moved into the checkpoint, and what proves it, without Spark."""

from typing import Any

import pytest

from dagster_sparkscale.driver.state.beside import copying, replaying
from dagster_sparkscale.driver.state.beside.state_copy import StateCopy
from dagster_sparkscale.driver.state.journal import Journal
from dagster_sparkscale.driver.state.layout import COPIES
from tests.driver.state.beside.scene import Scene, commit
from tests.driver.state.disk import content, put
from tests.waiting import HANGS


@pytest.fixture(autouse=True)
def nothing_is_waited_for(monkeypatch):
    monkeypatch.setattr(copying, "_WRITTEN_SECONDS", 0.0)


class TestChanges:
    """What has changed since query and copy were compared whole is compared in the end."""

    def written(self, scene: Scene, batches: int = 2) -> StateCopy:
        """A copy in the checkpoint of a query that had so many batches after the copy was made."""
        scene.steps["rewriting beside"] = lambda: scene.goes_on(5)
        copy = scene.copy()
        copy.prepare()
        scene.goes_on(batches)
        assert copy.proved is None
        assert copy.write(scene.begun()) is None
        return copy

    def test_the_same_changes_are_as_good_as_the_same_state(self, scene):
        scene.session.conf[replaying.CHANGELOGS] = "true"
        copy = self.written(scene)
        # The copy has batches 3 to 7 as its batch 4, and the last two as its batch 5.
        assert scene.compared == [[(False, 7, 9), (True, 4, 5)]]
        assert copy.proved == scene.state(7, 4)

    def test_other_changes_are_not(self, scene):
        scene.session.conf[replaying.CHANGELOGS] = "true"
        scene.changed = lambda path: len(path)
        assert self.written(scene).proved is None

    def test_nor_are_those_that_can_t_be_read(self, scene, capsys):
        scene.session.conf[replaying.CHANGELOGS] = "true"

        def fails(_path: str) -> int:
            raise RuntimeError("no changelog of version 8")

        scene.changed = fails
        assert self.written(scene).proved is None
        assert "compared whole: no changelog of version 8" in capsys.readouterr().err

    def test_none_are_read_where_spark_keeps_none(self, scene):
        assert self.written(scene).proved is None
        assert scene.compared == []

    def test_nor_where_tasks_may_run_twice(self, scene):
        scene.session.conf |= {replaying.CHANGELOGS: "true", "spark.speculation": "true"}
        assert self.written(scene).proved is None
        assert scene.compared == []

    def test_reading_them_is_given_up_once_the_driver_is_to_stop(self, scene):
        scene.session.conf[replaying.CHANGELOGS] = "true"

        def hangs(_path: str) -> int:
            scene.stopping = True
            assert scene.session.sparkContext.cancelled.wait(HANGS)
            raise RuntimeError("cancelled")

        scene.changed = hangs
        assert self.written(scene).proved is None

    def test_nor_where_nothing_has_changed(self, scene):
        assert self.written(scene, batches=0).proved == scene.state(7, 4)
        assert scene.compared == []

    def test_nor_of_joins_whose_versions_would_hang_on_each_other(self, tmp_path, monkeypatch):
        scene = Scene(tmp_path / "checkpoint", monkeypatch, "symmetricHashJoin")
        scene.session.conf[replaying.CHANGELOGS] = "true"
        assert self.written(scene).proved is None
        assert scene.compared == []


@pytest.mark.parametrize("moves", [0, 5])
def test_a_version_that_was_not_written_whole_is_written_by_a_batch_without_rows(scene, moves):
    """SPARK-56476: a task may commit a store that nobody unloads. The next version is whole."""
    scene.session.conf[replaying.CHANGELOGS] = "true"
    scene.moves = moves
    copy = scene.copy()
    copy.prepare()
    scene.goes_on()
    lost = ["5.zip", "6.zip"]

    def loses_one() -> None:
        for each in (scene.root / COPIES).rglob(f"3/{lost.pop(0)}" if lost else "none"):
            each.unlink()

    scene.on_replay = loses_one
    assert copy.write(scene.begun()) is None
    assert scene.replayed == [3, 3, 3]
    now = content(scene.root)
    assert b"copy3-7" in now["state/0/3/SSTs/8-copy3-7.sst"]
    assert now["commits/4"] == commit(moves).encode()
    assert scene.compared == [[(False, 2, 3), (True, 3, 6)]] and copy.proved is not None


def test_one_that_has_moved_the_watermark_once_more_had_rows_and_is_not_moved_in(scene):
    scene.moves = 5
    copy = scene.copy()
    copy.prepare()
    scene.goes_on()
    lost = ["5.zip"]

    def loses_one_and_has_rows() -> None:
        (place,) = scene.kept
        if lost:
            next(place.rglob(f"3/{lost.pop()}")).unlink()
        else:
            put(place, "commits/5", commit(5))

    scene.on_replay = loses_one_and_has_rows
    assert "batch 3 has come to another end" in (copy.write(scene.begun()) or "")


def test_where_nothing_else_was_replayed_all_is_compared_once_more(scene):
    scene.session.conf[replaying.CHANGELOGS] = "true"
    copy = scene.copy()
    copy.prepare()
    next((scene.root / COPIES).rglob("3/4.zip")).unlink()
    assert copy.write(scene.begun()) is None
    assert (scene.replayed, scene.compared, copy.proved) == ([2], [], None)


def test_a_store_that_is_never_written_whole_is_told_and_not_raised(scene):
    copy = scene.copy()
    copy.prepare()

    def loses_all() -> None:
        for each in (scene.root / COPIES).rglob("3/*.zip"):
            each.unlink()

    loses_all()
    scene.on_replay = loses_all
    assert "is no snapshot" in (copy.write(scene.begun()) or "")
    assert len(scene.replayed) == 3


def test_it_is_not_moved_in_where_that_takes_room_that_is_not_there(tmp_path, monkeypatch):
    scene = Scene(tmp_path / "checkpoint", monkeypatch, "stateStoreSave", here=False)
    free = [10**9]
    monkeypatch.setattr(scene.disk, "free", lambda: free[0])
    copy = scene.copy()
    copy.prepare()
    noted, was, free[0] = scene.begun(), content(scene.root), 0
    assert "has 0 MB left" in (copy.write(noted) or "")
    assert content(scene.root) == was


def test_what_another_driver_has_closed_while_the_last_batch_was_replayed_is_not_moved_in(scene):
    """One that was cut off for long: the other one runs the query."""
    copy = scene.copy()
    copy.prepare()
    scene.goes_on()
    noted, was = scene.begun(), content(scene.root)
    scene.on_replay = Journal(scene.disk).close
    assert copy.write(noted) == "another driver has undone or closed it meanwhile"
    assert content(scene.root) == was


def test_nor_is_the_rest_where_it_has_closed_it_while_that_was_moved_in(tmp_path, monkeypatch):
    scene = Scene(tmp_path / "checkpoint", monkeypatch, "stateStoreSave", here=False)
    copy = scene.copy()
    copy.prepare()
    noted, known = scene.begun(), scene.disk.copy

    def closed(*copied: Any) -> None:
        known(*copied)
        Journal(scene.disk).close()

    monkeypatch.setattr(scene.disk, "copy", closed)
    assert copy.write(noted) == "another driver has undone or closed it meanwhile"
    assert f"commits/{noted.batch + 1}" not in content(scene.root)
