"""A change that is cut off at any point is undone, or closed, by whoever starts next."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.driver.state import reconfigure
from dagster_sparkscale.driver.state.journal import Begun, Journal
from dagster_sparkscale.driver.state.reporting import Reporting
from dagster_sparkscale.driver.state.undo import files_of, undo
from tests.driver.state.disk import Died, Disk, checkpoint, content, entry, put, rewrite


def change_of(disk: Disk, before: int = 4, after: int = 8) -> Begun:
    return Begun("plan", 2, before, after, files_of(disk))


def resumed(
    root: Path, lives: int | None = None, passed_over: list[int] | None = None
) -> list[Reporting]:
    disk, reports = Disk(root, lives), []

    def report(id: str, before: int, after: int) -> Reporting:
        reports.append(Reporting(id, "counts", before=before, after=after))
        return reports[-1]

    passed = [] if passed_over is None else passed_over
    reconfigure.resume(disk, Journal(disk), report, passed.append)
    return reports


@pytest.mark.parametrize(("before", "after"), [(4, 8), (4, 1), (1, 3)])
def test_what_was_added_is_deleted_with_its_folders(tmp_path, before, after):
    checkpoint(tmp_path, before)
    disk, was = Disk(tmp_path), content(tmp_path)
    change = change_of(disk, before, after)
    rewrite(disk, tmp_path, after)
    assert undo(disk, change).trouble is None
    assert content(tmp_path) == was
    assert {each.name for each in (tmp_path / "state/0").iterdir()} == set(map(str, range(before)))


def test_what_is_gone_or_changed_is_told(tmp_path):
    checkpoint(tmp_path)
    disk = Disk(tmp_path)
    change = change_of(disk)
    (tmp_path / "state/0/1/2.changelog").unlink()
    put(tmp_path, "offsets/1", "cut")
    trouble = undo(disk, change).trouble
    assert trouble is not None and "offsets/1" in trouble and "state/0/1/2.changelog" in trouble


@settings(max_examples=3 * settings.default.max_examples)
@given(died=st.integers(0, 16), died_again=st.integers(0, 16), verified=st.booleans())
def test_a_kill_at_any_point_leaves_the_old_state_or_the_new_one(
    tmp_path_factory, died, died_again, verified
):
    root = tmp_path_factory.mktemp("checkpoint")
    checkpoint(root)
    was = content(root)
    disk = Disk(root, died)
    journal, change = Journal(disk), change_of(disk)
    finished = False
    try:
        journal.begin(change)
        rewrite(disk, root, 8)
        if verified:
            journal.verify(change)
            finished = True
            journal.close()
    except Died:
        pass
    try:
        resumed(root, died_again)
    except Died:
        reports = resumed(root)
    else:
        reports = resumed(root)
        assert reports == [], "it is over after one that went through"
    assert Journal(Disk(root)).begun() is None
    now = content(root)
    assert now.keys() - was.keys() if finished else now == was
    for name in was:
        assert now[name] == was[name]


@pytest.mark.parametrize("verified", [False, True])
def test_the_batch_of_a_change_that_stays_is_passed_over_in_the_output(tmp_path, verified):
    checkpoint(tmp_path)
    disk, passed_over = Disk(tmp_path), list[int]()
    journal, change = Journal(disk), change_of(disk)
    journal.begin(change)
    rewrite(disk, tmp_path, 8)
    if verified:
        journal.verify(change)
    resumed(tmp_path, passed_over=passed_over)
    assert passed_over == ([3] if verified else [])


def written(root: Path, after: int = 8) -> None:
    """A change whose new state is complete, and which was cut off before it was closed."""
    checkpoint(root)
    disk = Disk(root)
    Journal(disk).begin(change_of(disk, after=after))
    rewrite(disk, root, after)


def left_alone(root: Path) -> str:
    """Why whoever starts next undoes nothing."""
    was = content(root)
    (report,) = resumed(root)
    assert content(root) == was
    assert report.told.outcome == "failed" and report.told.reason is not None
    return report.told.reason


@pytest.mark.parametrize("after", [8, 1])
def test_a_batch_that_is_in_progress_on_the_new_partitions_is_not_undone(tmp_path, after):
    """Its sink may have had it already."""
    written(tmp_path, after)
    put(tmp_path, "offsets/4", entry(after))
    assert "has begun batch 4 since" in left_alone(tmp_path)


def test_a_query_that_ran_on_is_left_as_it_is(tmp_path):
    written(tmp_path)
    put(tmp_path, "offsets/4", entry(8))
    put(tmp_path, "commits/4", "v1\n{}")
    assert "run on since, to batch 4" in left_alone(tmp_path)
    assert resumed(tmp_path) == []


def test_a_batch_of_the_query_itself_is_none_of_the_change(tmp_path):
    checkpoint(tmp_path)
    disk = Disk(tmp_path)
    Journal(disk).begin(change_of(disk))
    put(tmp_path, "offsets/3", entry(4))
    put(tmp_path, "state/0/1/4.changelog", "batch 3")
    assert "on its 4 partitions since" in left_alone(tmp_path)


def test_a_disk_that_fails_keeps_the_query_from_starting(tmp_path):
    checkpoint(tmp_path)
    disk = Disk(tmp_path)
    Journal(disk).begin(change_of(disk))
    rewrite(disk, tmp_path, 8)

    class Failing(Disk):
        def delete(self, name: str) -> None:
            raise OSError("no room for a deletion")

    reports: list[Reporting] = []

    def report(id: str, before: int, after: int) -> Reporting:
        reports.append(Reporting(id, "counts", before=before, after=after))
        return reports[-1]

    failing = Failing(tmp_path)
    with pytest.raises(reconfigure.InTheMiddle, match="no room for a deletion"):
        reconfigure.resume(failing, Journal(failing), report)
    assert reports[0].told.outcome == "failed"
    assert resumed(tmp_path)[0].told.outcome == "undone"


def test_an_empty_folder_that_stays_keeps_no_query_from_starting(tmp_path):
    """Such as one with checksums in it whose file is gone: Hadoop does not list these, and says
    that the folder is not empty."""
    checkpoint(tmp_path)
    disk, was = Disk(tmp_path), content(tmp_path)
    Journal(disk).begin(change_of(disk))
    rewrite(disk, tmp_path, 8)

    class Full(Disk):
        def delete_empty(self, folder: str) -> None:
            raise OSError(f"Directory {folder} is not empty")

    full, told = Full(tmp_path), Reporting("plan", "counts")
    reconfigure.resume(full, Journal(full), lambda *_, **__: told)
    assert told.told.outcome == "undone"
    assert content(tmp_path) == was
