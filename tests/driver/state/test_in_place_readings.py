"""How often the state of a query that is changed in place is read, and when; without Spark."""

import threading
from dataclasses import replace

import pytest

from dagster_sparkscale.driver.state import in_place
from tests.driver.state.disk import rewritten
from tests.driver.state.in_place_scene import Scene
from tests.waiting import HANGS, wait_for


def test_what_can_t_be_read_while_it_runs_is_left_to_a_restart(tmp_path, monkeypatch):
    """As where its batches are purged faster than they are read."""

    batches = []

    def purged(batch, _rows):
        batches.append(batch)
        raise OSError("no such file")

    scene = Scene(tmp_path, monkeypatch, read=purged)
    report = scene.change()
    assert len(batches) == 2
    assert (report.outcome, report.restart, scene.ends) == ("refused", True, 0)
    assert report.reason == "its state can't be read while it runs: no such file"


def test_what_can_t_be_read_at_first_is_read_once_more(tmp_path, monkeypatch):
    """As where Hadoop has closed the client of an object store meanwhile."""
    faults = [OSError("closed")]

    def closed(_batch, rows):
        if faults:
            raise faults.pop()
        return rows

    assert Scene(tmp_path, monkeypatch, read=closed).change().outcome == "changed"


@pytest.mark.parametrize("slots", [4, 5])  # in the second case the rewriting does not wait for it
@pytest.mark.parametrize("unread", [3, 4])
@pytest.mark.parametrize(
    ("stops", "outcome"), [(False, {"changed"}), (True, {"refused", "undone"})]
)
def test_so_is_what_it_was_and_what_it_was_changed_to_while_it_stands_still(
    tmp_path, monkeypatch, unread, slots, stops, outcome
):
    """A change that was made must not be undone for it. A driver that is to stop has no time."""
    batches = []

    def closed(batch, rows):
        batches.append(batch)
        if batch == unread and batches.count(batch) == 1:
            scene.stopping = stops
            raise OSError("closed")
        return rows

    scene = Scene(tmp_path, monkeypatch, read=closed)
    _a_batch_comes_before_it_is_ended(scene, monkeypatch)
    scene.slots = slots
    report = scene.change()
    assert report.outcome in outcome, report
    assert batches.count(unread) == (1 if stops else 2)


def test_rows_that_are_elsewhere_then_are_not_read_once_more(tmp_path, monkeypatch):
    batches = []

    def elsewhere(batch, rows):
        batches.append(batch)
        one = replace(rows.partitions[0], misplaced=int(batch == 3))
        return replace(rows, partitions={**rows.partitions, 0: one})

    scene = Scene(tmp_path, monkeypatch, read=elsewhere)
    _a_batch_comes_before_it_is_ended(scene, monkeypatch)
    assert scene.change().outcome == "refused"
    assert batches == [2, 3]


def test_what_is_not_wanted_any_more_is_not_read_once_more(tmp_path, monkeypatch):
    """The query may have been started again."""
    batches = []

    def closed(batch, rows):
        batches.append(batch)
        if batch == 3:
            raise OSError("closed")
        return rows

    def fails():
        raise OSError("Spark can't write")

    scene = Scene(tmp_path, monkeypatch, read=closed, before=fails)
    _a_batch_comes_before_it_is_ended(scene, monkeypatch)
    scene.slots = 5
    assert scene.change().outcome == "undone"
    wait_for("what is read beside to be over", lambda: not _measuring())
    assert batches == [2, 3]


def test_nor_is_it_once_the_driver_is_to_stop(tmp_path, monkeypatch):
    batches = []

    def closed(batch, _rows):
        batches.append(batch)
        scene.stopping = True
        raise OSError("closed")

    scene = Scene(tmp_path, monkeypatch, read=closed)
    report = scene.change()
    assert (len(batches), report.outcome, scene.ends) == (1, "refused", 0)
    assert "its driver was asked to stop" in report.reason


@pytest.mark.parametrize(("slots", "beside"), [(None, False), (4, False), (5, True)])
def test_where_there_is_room_the_state_is_read_beside_the_rewriting(
    tmp_path, monkeypatch, slots, beside
):
    scene = Scene(tmp_path, monkeypatch)
    scene.slots = slots
    _a_batch_comes_before_it_is_ended(scene, monkeypatch)
    report = scene.change()
    assert report.outcome == "changed", report
    assert ("measuring" in report.seconds) != beside
    assert report.rows == 8


def test_a_driver_that_is_asked_to_stop_while_state_is_read_gives_that_up(tmp_path, monkeypatch):
    """Its end would wait for it, however much there is to be read."""

    def reads(_batch, _rows):
        scene.stopping = True
        assert scene.spark.sparkContext.cancelled.wait(HANGS)
        raise OSError("job 7 was cancelled")

    scene = Scene(tmp_path, monkeypatch, read=reads)
    report = scene.change()
    assert (report.outcome, report.restart, scene.ends) == ("refused", False, 0)
    assert report.reason == "its driver was asked to stop before anything was touched"
    assert scene.spark.sparkContext.properties["spark.jobGroup.id"] == "the program's"


def test_what_is_read_is_not_given_up_while_nobody_asks_to_stop(tmp_path, monkeypatch):
    def reads(_batch, rows):
        assert not scene.spark.sparkContext.cancelled.wait(0.3)
        return rows

    scene = Scene(tmp_path, monkeypatch, read=reads)
    assert scene.change().outcome == "changed"


def _measuring():
    return [each for each in threading.enumerate() if each.name == "sparkscale-measure"]


def _a_batch_comes_before_it_is_ended(scene, monkeypatch):
    ended = scene._end

    def end(*args):
        for name in ("offsets", "commits"):
            scene.disk.write(f"{name}/3", scene.disk.read(f"{name}/2"))
        return ended(*args)

    def rewrite(disk, partitions):
        for name, written in rewritten(partitions, 3).items():
            disk.write(name, written)

    monkeypatch.setattr(in_place, "end", end)
    monkeypatch.setattr("tests.driver.state.played.rewrite", rewrite)
