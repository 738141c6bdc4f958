"""When a copy that catches up with its query is made, given up and moved in, without Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.beside import replaying, state_copy, storage
from dagster_sparkscale.driver.state.beside.limits import Limits, Source
from dagster_sparkscale.driver.state.beside.state_copy import NotBeside
from dagster_sparkscale.driver.state.layout import COPIES
from tests.driver.state.beside.scene import Scene, commit
from tests.driver.state.beside.test_copying import folders
from tests.driver.state.disk import content, put
from tests.waiting import HANGS, wait_for


def test_a_query_without_a_batch_since_has_nothing_replayed(scene):
    copy = scene.copy()
    assert copy.why_not() is None
    copy.prepare()
    was = content(scene.root)
    assert copy.write(scene.begun()) is None
    assert scene.replayed == [] and copy.latest.batch == 2
    new = {name for name in content(scene.root) if name not in was}
    assert {"offsets/3", "commits/3", "state/0/_metadata/v2/3", "state/0/3/4.zip"} <= new
    put(scene.root, f"{COPIES}/another", "of a driver that was started meanwhile")
    copy.drop()
    assert [*scene.disk.files(COPIES)] == [f"{COPIES}/another"]
    (scene.root / COPIES / "another").unlink()
    copy.drop()
    assert not (scene.root / COPIES).exists()


@pytest.mark.parametrize(
    ("begun", "set_now", "why"),
    [
        ("v1", "2", None),
        ("v2", "1", "its state is kept in format 2 of state stores, which gives versions ids"),
    ],
)
def test_the_format_of_state_is_that_of_the_checkpoint_whatever_is_set(scene, begun, set_now, why):
    scene.session.conf[layout.FORMAT] = set_now
    put(scene.root, "commits/2", commit().replace("v1", begun))
    assert scene.copy().why_not() == why


def test_batches_since_are_replayed_as_one_and_compared_and_the_last_ones_at_the_end(scene):
    scene.steps["rewriting beside"] = lambda: scene.goes_on(5)
    copy = scene.copy()
    copy.prepare()
    assert scene.replayed == [7] and copy.latest.batch == 7
    scene.goes_on()
    was = content(scene.root)
    assert copy.write(scene.begun()) is None
    assert scene.replayed == [7, 8]
    now = content(scene.root)
    assert {name: now[name] for name in was} == was
    bound = layout.bound(now["offsets/9"].decode(), "")
    assert (bound.partitions, json.loads(now["offsets/9"].splitlines()[2])) == (4, {"at": 8})
    # The copy has batch 8 as its batch 5, of version 6; here it is batch 9, of version 10.
    assert b"copy3-6" in now["state/0/3/SSTs/8-copy3-6.sst"]
    assert now["commits/9"] == commit().encode()
    assert set(folders(4)) == {
        name.removeprefix("state/").removesuffix("/10.zip")
        for name in now
        if name.endswith("/10.zip")
    }


@pytest.mark.parametrize(("operator", "watermark"), [("stateStoreSave", 5), ("dedupe", 7)])
def test_with_a_watermark_one_batch_after_the_other_is_replayed(
    tmp_path, monkeypatch, operator, watermark
):
    scene = Scene(tmp_path / "checkpoint", monkeypatch, operator)
    scene.watermark = watermark
    scene.steps["rewriting beside"] = lambda: scene.goes_on(3)
    copy = scene.copy()
    copy.prepare()
    scene.goes_on(2)
    assert copy.write(scene.begun()) is None
    assert scene.replayed == [3, 4, 5, 6, 7]
    assert content(scene.root)["commits/8"] == commit(watermark).encode()


def test_and_of_operators_that_need_each_batch(tmp_path, monkeypatch):
    scene = Scene(tmp_path / "checkpoint", monkeypatch, "symmetricHashJoin")
    scene.steps["rewriting beside"] = lambda: scene.goes_on(3)
    scene.copy().prepare()
    assert scene.replayed == [3, 4, 5]


def test_a_batch_that_comes_with_each_replay_is_left_to_the_end(scene):
    scene.steps["copying"] = scene.goes_on
    scene.on_replay = scene.goes_on
    copy = scene.copy()
    copy.prepare()
    assert len(scene.replayed) <= 2 * state_copy._ENOUGH
    scene.on_replay = lambda: None
    assert copy.write(scene.begun()) is None
    assert scene.replayed[-1] == scene.batch


def test_a_copy_that_never_catches_up_is_given_up(tmp_path, monkeypatch):
    scene = Scene(tmp_path / "checkpoint", monkeypatch, "symmetricHashJoin")
    scene.steps["copying"] = lambda: scene.goes_on(3)
    scene.on_replay = scene.goes_on
    with pytest.raises(NotBeside, match="catches up too slowly: 3 batches are left"):
        scene.copy().prepare()
    assert len(scene.replayed) == 10
    assert scene.report.change.behind == 3


def test_a_rewriting_that_hangs_is_cancelled_once_its_time_is_over(scene):
    """Or it would keep the executors that have come for it, and bar other changes, for good."""

    def hangs(*_: Any) -> None:
        assert scene.session.sparkContext.cancelled.wait(HANGS)
        raise RuntimeError("cancelled")

    scene.session._streamingCheckpointManager = SimpleNamespace(repartition=hangs)
    with pytest.raises(NotBeside, match=r"^its copy has not been made in 1 s$"):
        scene.copy(Limits(0, False, within=0.5001)).prepare()


def test_and_a_replay_that_hangs(scene):
    def hangs(give_up: Callable[[], str | None]) -> None:
        wait_for("it to be given up", give_up)
        raise replaying.NotReplayed(give_up() or "")

    scene.steps["copying"] = scene.goes_on
    copy = scene.copy(Limits(0, False, within=0.5001))
    copy._batches._replays = SimpleNamespace(replay=hangs)
    with pytest.raises(NotBeside, match=r"^its copy has not been made in 1 s$"):
        copy.prepare()


@pytest.mark.parametrize("differing", [2, 4])
def test_a_copy_that_is_not_the_same_is_given_up_while_the_query_runs(scene, differing):
    scene.steps["rewriting beside"] = lambda: scene.goes_on(2)
    scene.differs = lambda batch: batch == differing
    was = content(scene.root)
    with pytest.raises(NotBeside, match="the copy is not the same: operator 0, store 'default'"):
        scene.copy().prepare()
    now = content(scene.root)
    assert {name: now[name] for name in was} == was


def test_a_batch_with_another_watermark_than_it_had_is_given_up(scene):
    scene.watermark = 5
    scene.steps["rewriting beside"] = scene.goes_on

    def another() -> None:
        (place,) = scene.kept
        put(place, "commits/4", commit(9))

    scene.on_replay = another
    with pytest.raises(NotBeside, match="batch 3 has come to another end when it was run again"):
        scene.copy().prepare()


@pytest.mark.parametrize("mark", [5, 7])
def test_a_batch_may_move_the_least_of_several_watermarks_less_far_than_before(scene, mark):
    """Spark forgets with each start how far those of other sources had come."""
    scene.watermark, scene.moves = 5, 4
    scene.steps["rewriting beside"] = scene.goes_on

    def less_far() -> None:
        (place,) = scene.kept
        put(place, "commits/4", commit(mark))

    scene.on_replay = less_far
    scene.copy().prepare()
    assert scene.replayed == [3]


@pytest.mark.parametrize(
    ("stops", "why"),
    [
        ({"active": False}, "its query has ended meanwhile"),
        ({"stopping": True}, "its driver was asked to stop"),
    ],
)
@pytest.mark.parametrize("step", ["comparing", "catching up"])
def test_an_end_of_the_query_or_the_driver_is_heeded(scene, stops, why, step):
    scene.steps["copying"] = scene.goes_on
    scene.steps[step] = lambda: scene.__dict__.update(stops)
    with pytest.raises(NotBeside, match=why):
        scene.copy().prepare()
    assert scene.replayed == []


def test_entries_that_spark_writes_in_another_way_are_not_written_by_us(scene):
    known = scene.repartition

    def another(path: str, *more: Any) -> None:
        known(path, *more)
        file = Path(path) / "offsets/3"
        file.write_text(file.read_text().replace('"conf"', '"version":3,"conf"'))

    scene.session._streamingCheckpointManager = SimpleNamespace(repartition=another)
    with pytest.raises(NotBeside, match="the entries of its logs are not those that are known"):
        scene.copy().prepare()


def test_a_copy_that_might_fill_the_disk_is_not_rewritten(scene, monkeypatch):
    """The query's next batch would fail, and end it."""
    full = SimpleNamespace(free=500_000, total=10**9)
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _place: full)
    monkeypatch.setattr(scene.disk, "free", lambda: full.free if full.total else None)
    last = scene.root / "state/0/1/SSTs" / f"8-query1-{scene.batch}.sst"
    last.write_bytes(bytes(2_000_000))
    for full.free in (500_000, 5_000_000)[: 1 if scene.disk.local else 2]:
        with pytest.raises(NotBeside, match=rf"state of 2 MB there must be {scene.room}, or the"):
            scene.copy().prepare()
    assert scene.kept == {}
    for full.free, full.total in ((7_000_000, 10**9), (0, 0)):
        scene.copy().prepare()


def test_it_is_not_moved_in_where_that_takes_as_long_as_in_place(tmp_path, monkeypatch):
    scene = Scene(tmp_path / "checkpoint", monkeypatch, "stateStoreSave", here=False)
    clock = [0.0]
    monkeypatch.setattr(state_copy.time, "monotonic", lambda: clock[0])
    known = scene.disk.copy

    def slow(*copied: Any) -> None:
        clock[0] += 10.0
        known(*copied)

    monkeypatch.setattr(scene.disk, "copy", slow)
    with pytest.raises(NotBeside, match="to rewrite them took 0 s: the query stands still"):
        scene.copy().prepare()
    assert scene.kept


def test_a_file_that_spark_has_deleted_meanwhile_is_told_with_why_it_may_have(scene):
    name = f"8-query0-{scene.batch}.sst"
    scene.steps["copying"] = (scene.root / "state/0/0/SSTs" / name).unlink
    with pytest.raises(NotBeside, match=r"^a file is gone: Spark retains 100 batches, and copy"):
        scene.copy().prepare()


def test_what_fails_says_at_which_step(scene):
    def fails(*_: Any) -> None:
        raise RuntimeError("no executor")

    scene.session._streamingCheckpointManager = SimpleNamespace(repartition=fails)
    with pytest.raises(NotBeside, match="rewriting beside: no executor"):
        scene.copy().prepare()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sources": (Source("socket"),)}, "it reads from 'socket'"),
        ({"sources": (Source("files", True),)}, "cleanSource"),
        (
            {"session": {layout.RETAINED: "5"}},
            "only 5 batches are retained",
        ),
    ],
)
def test_it_is_refused_before_anything_is_copied(scene, change, why):
    scene.sources = change.get("sources", scene.sources)
    scene.session.conf.update(change.get("session", {}))
    assert why in (scene.copy().why_not() or "")


def test_and_by_what_was_asked(scene):
    assert "rows are fewer than 1,000" in (scene.copy(Limits(1000, True, 60.0)).why_not() or "")
    busy = scene.copy(Limits(0, True, 60.0, busiest=0.01)).why_not()
    assert (
        busy == "its batches take 0.05 of their interval: above 0.01 there is nothing to spare "
        "for a copy"
    )


def test_an_operator_without_a_name_is_not_replayed(scene):
    (scene.root / "state/0/_metadata/v2/0").write_text("v2\n{}")
    why = scene.copy().why_not()
    assert why == "it was not tried for operators such as one that its checkpoint does not name"
