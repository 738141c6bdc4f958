"""The steps of a change in place, and what becomes of the query where one fails; without Spark."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dagster_sparkscale.driver.request import BadRequest, NotReady
from dagster_sparkscale.driver.state import hook, in_place, layout
from dagster_sparkscale.driver.state.beside.limits import Source
from dagster_sparkscale.driver.state.journal import Journal
from dagster_sparkscale.driver.succession.end import EndedForGood, NotEnded
from tests.driver.state.disk import content
from tests.driver.state.in_place_scene import Scene
from tests.driver.state.played import PLAN, without_a_row
from tests.waiting import wait_for


@pytest.fixture
def scene(tmp_path, monkeypatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_it_is_prepared_then_ended_changed_and_started_again(scene):
    report = scene.change()
    assert (report.outcome, report.way, report.down) == ("changed", "in place", None)
    assert (report.before, report.after, report.rows) == (4, 8, 8)
    assert report.over_at is not None and report.step == "over"
    # No batch has come since it was prepared, so that it is not measured again.
    steps = {"preparing", "ending", "checking", "writing down", "rewriting", "verifying", "closing"}
    assert set(report.seconds) == steps | {"starting"}
    assert (scene.ends, scene.starts, scene.partitions) == (1, 1, 8)
    assert scene.passages.of("run 1").phase == "succeeded"
    assert Journal(scene.disk).last().outcome == "changed"
    assert Journal(scene.disk).begun() is None


@pytest.mark.parametrize(
    ("which", "why", "restart"),
    [("now", "its program has set x", True), ("groups", "has 8 key groups, and not 16", False)],
)
def test_what_can_t_be_changed_is_not_ended(scene, which, why, restart):
    plan = PLAN
    scene.why["now"] = why if which == "now" else None
    if which == "groups":
        Journal(scene.disk).remember(8)
        plan = replace(PLAN, partitions=16, key_groups=16)
    report = scene.change(plan)
    assert (report.outcome, report.restart) == ("refused", restart)
    assert why in report.reason
    assert (scene.ends, scene.partitions) == (0, 4)
    # A window does not ask again for what would be refused again.
    assert (Journal(scene.disk).last() is None) == restart


def test_what_comes_up_while_its_state_is_read_is_found_before_it_is_ended(tmp_path, monkeypatch):
    def set_meanwhile(_batch, rows):
        scene.why["now"] = "its program has set x"
        return rows

    scene = Scene(tmp_path, monkeypatch, read=set_meanwhile)
    report = scene.change()
    assert (report.outcome, report.restart, scene.ends) == ("refused", True, 0)
    assert report.reason == "its program has set x"


def test_rows_that_are_elsewhere_are_found_before_it_is_ended(tmp_path, monkeypatch):
    def elsewhere(_batch, rows):
        one = replace(rows.partitions[0], misplaced=1)
        return replace(rows, partitions={**rows.partitions, 0: one})

    scene = Scene(tmp_path, monkeypatch, read=elsewhere)
    report = scene.change()
    assert report.outcome == "refused" and "rows are not where Spark looks" in report.reason
    assert scene.ends == 0


@pytest.mark.parametrize(("retained", "outcome"), [(1, "refused"), (2, "refused"), (3, "changed")])
def test_what_the_stores_of_the_run_that_ends_may_delete_is_left_to_a_restart(
    scene, retained, outcome
):
    scene.spark.conf["spark.sql.streaming.minBatchesToRetain"] = str(retained)
    report = scene.change()
    assert (report.outcome, report.restart) == (outcome, outcome == "refused")
    assert outcome == "changed" or report.reason.startswith(
        f"spark.sql.streaming.minBatchesToRetain = {retained}: stores of the run that ends"
    )


def test_nothing_is_changed_while_its_program_starts_it(scene):
    """It may have passed what is done before a start, and Spark not have started it yet."""
    with scene.spark.playing():
        with scene.its.starting(scene.run.started.new):
            scene.changes.ask(PLAN, 60.0)
            threading.Event().wait(0.1)
            assert scene.changes.busy and scene.ends == 0
        wait_for("the change to be over", lambda: not scene.changes.busy)
    assert scene.ends == 1


def test_one_that_has_the_number_is_left(scene):
    report = scene.change(replace(PLAN, partitions=4))
    assert (report.outcome, scene.ends) == ("unchanged", 0)


def test_one_that_ends_of_itself_is_left(scene):
    scene.not_ended = NotEnded("its query has ended of itself")
    report = scene.change()
    assert (report.outcome, report.reason) == ("refused", "its query has ended of itself")
    assert scene.partitions == 4


def test_one_that_was_ended_and_can_t_be_started_again_is_left_to_a_restart(scene):
    scene.not_ended = EndedForGood("it was ended, and then: no answer")
    report = scene.change()
    assert (report.outcome, report.restart) == ("refused", True)
    assert report.down == report.reason == "it was ended, and then: no answer"
    assert scene.partitions == 4


def test_a_change_that_is_undone_starts_it_on_what_it_had(tmp_path, monkeypatch):
    scene = Scene(tmp_path, monkeypatch, read=without_a_row)
    was = content(tmp_path)
    report = scene.change()
    assert (report.outcome, report.down) == ("undone", None)
    assert (scene.starts, scene.partitions) == (1, 4)
    assert content(tmp_path) == was
    assert scene.passages.of("run 1").phase == "succeeded"


def test_one_that_can_t_be_put_back_is_not_started(tmp_path, monkeypatch):
    scene = Scene(tmp_path, monkeypatch, read=without_a_row)

    delete = scene.disk.delete

    def fails(name):
        if name.startswith("state/"):
            raise OSError("no answer")
        delete(name)

    monkeypatch.setattr(scene.disk, "delete", fails)
    report = scene.change()
    assert (report.outcome, scene.starts) == ("failed", 0)
    assert "is in the middle of a change" in report.down
    passage = scene.passages.of("run 1")
    assert (passage.phase, passage.error) == ("over", report.down)
    assert scene.passages.ends(1).ended


def test_one_that_can_t_be_started_again_is_told_as_ended(scene):
    scene.fails = ValueError("no such sink")
    report = scene.change()
    assert (report.outcome, scene.partitions) == ("changed", 8)
    assert report.down == "it could not be started again: no such sink"
    assert scene.passages.of("run 1").error == report.down
    assert Journal(scene.disk).last().outcome == "changed"


def test_one_that_its_program_stops_meanwhile_is_changed_and_stays_stopped(tmp_path, monkeypatch):
    def stop():
        scene.passages.want_stop(scene.passages.of("run 1"))

    scene = Scene(tmp_path, monkeypatch, meanwhile=stop)
    report = scene.change()
    assert (report.outcome, report.down, scene.starts) == ("changed", None, 0)
    passage = scene.passages.of("run 1")
    assert (passage.phase, passage.error) == ("over", None)


def test_a_driver_that_is_asked_to_stop_first_begins_nothing(scene):
    scene.stopping = True
    report = scene.change()
    assert (report.outcome, scene.ends) == ("refused", 0)
    assert "asked to stop before anything was touched" in report.reason


def test_one_that_is_asked_to_stop_later_starts_it_for_its_end_in_good_order(scene, monkeypatch):
    ended = scene._end

    def end(*args):
        scene.stopping = True
        return ended(*args)

    monkeypatch.setattr(in_place, "end", end)
    report = scene.change()
    assert (report.outcome, scene.partitions) == ("refused", 4)
    assert (scene.ends, scene.starts) == (1, 1)


def test_of_a_query_that_was_not_looked_at_it_is_not_said_that_it_can_be_read_again(scene):
    (why,) = scene.changes.why_not_beside().values()
    assert why == "what it reads has not been looked at yet"


@pytest.mark.parametrize(
    ("version", "set_now", "told"),
    [
        ("v1", "2", None),
        ("v2", "1", "its state is kept in format 2 of state stores, which gives versions ids"),
        ("none", "2", "its state is kept in format 2 of state stores, which gives versions ids"),
        ("x", "1", "how it is kept, is not known"),
    ],
)
def test_how_it_is_kept_is_told_by_its_checkpoint_and_at_first_by_what_is_set(
    scene, monkeypatch, version, set_now, told
):
    monkeypatch.setattr(in_place.replaying, "sources", lambda _frame: (Source("files"),))
    scene.spark.conf[layout.FORMAT] = set_now
    new = replace(scene.run.started.new, frame=SimpleNamespace(sparkSession=scene.spark))
    scene.run.started.new = new
    for name in scene.disk.names("commits"):
        if version == "none":
            scene.disk.delete(f"commits/{name}")
        else:
            scene.disk.write(f"commits/{name}", f"{version}\n{{}}".encode())
    scene.changes.noted(scene.run)
    (why,) = scene.changes.why_not_beside().values()
    assert why is None if told is None else told in why


def test_one_plan_at_a_time_and_each_once(scene):
    with scene.spark.playing():
        scene.changes.ask(PLAN, 60.0)
        scene.changes.ask(PLAN, 60.0)
        wait_for("the change to be over", lambda: not scene.changes.busy)
        scene.changes.ask(PLAN, 60.0)
        assert not scene.changes.busy
    assert scene.ends == 1


def test_where_there_can_be_no_thread_nothing_is_taken_and_it_can_be_asked_again(
    scene, monkeypatch
):
    """Else it would count as being reconfigured for good, and never be scaled again."""
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", _no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            scene.changes.ask(PLAN, 60.0)
    assert scene.its.reconfigurations == ()
    assert scene.change().outcome == "changed"


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_another_plan_meanwhile_is_refused(tmp_path, monkeypatch):
    errors = []

    def meanwhile():
        try:
            scene.changes.ask(replace(PLAN, id="another"), 60.0)
        except NotReady as error:
            errors.append(str(error))

    scene = Scene(tmp_path, monkeypatch, meanwhile=meanwhile)
    assert scene.change().outcome == "changed"
    assert errors == ["the state of its queries is being changed already"]


def test_a_query_that_can_t_be_started_again_is_refused_at_once(scene):
    with pytest.raises(BadRequest, match="'other': does not run, or was not started by PySpark"):
        scene.changes.ask(replace(PLAN, queries=("other",)), 60.0)
    scene.why["fixed"] = "its trigger is OneTimeTrigger"
    with pytest.raises(BadRequest, match="query 'counts': its trigger is OneTimeTrigger"):
        scene.changes.ask(PLAN, 60.0)
    assert scene.changes.why_not() == {"counts": "its trigger is OneTimeTrigger"}
    assert scene.its.reconfigurations == ()


def test_a_checkpoint_that_can_t_be_looked_at_is_left(scene, monkeypatch):
    def fails(*_):
        raise OSError("no answer")

    monkeypatch.setattr(hook, "Folder", fails)
    report = scene.change()
    assert (report.outcome, scene.ends) == ("refused", 0)
    assert report.reason == "before anything was touched: no answer"


def test_a_query_without_a_checkpoint_of_its_own_is_left(scene):
    scene.run.started.new = replace(scene.run.started.new, options={})
    report = scene.change()
    assert (report.outcome, scene.ends) == ("refused", 0)
    assert report.reason == "it has no checkpoint of its own: give it one"


def test_several_queries_are_changed_one_after_the_other(scene):
    plan = replace(PLAN, queries=("counts", "other"))
    scene.changes._runs.active = lambda: {"counts": scene.run, "other": scene.run}
    scene.change(plan)
    found = {each.query: each.outcome for each in scene.its.reconfigurations}
    assert found == {"counts": "changed", "other": "unchanged"}  # of the same checkpoint
    assert scene.ends == 1
