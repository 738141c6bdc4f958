"""A change that is cut off at any point is undone, or closed, by whoever starts next."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state import closing
from dagster_sparkscale.driver.state.journal import Begun, Journal
from dagster_sparkscale.driver.state.layout import COPIES
from dagster_sparkscale.driver.state.undo import files_of, undo
from tests.driver.state.disk import (
    Died,
    Disk,
    checkpoint,
    content,
    entry,
    passed_over,
    put,
    rewrite,
    rewritten,
)
from tests.driver.state.played import PLAN, Spark, all_rows, changed, resumed, without_a_row


def change_of(disk: Disk, before: int = 4, after: int = 8) -> Begun:
    return Begun("plan", 2, before, after, files_of(disk))


@pytest.mark.parametrize(("before", "after"), [(4, 8), (4, 1), (1, 3)])
def test_what_was_added_is_deleted_with_its_folders(tmp_path, before, after):
    checkpoint(tmp_path, before)
    disk, was = Disk(tmp_path), content(tmp_path)
    change = change_of(disk, before, after)
    rewrite(disk, after)
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


@pytest.mark.parametrize("error", [FileNotFoundError, RuntimeError], ids=["here", "elsewhere"])
def test_a_copy_that_is_still_written_to_keeps_nothing_from_being_undone(tmp_path, error):
    """By tasks of a replay that was given up: what they rename goes while it is listed. Stores of
    the run that has ended write a snapshot beside it."""

    class Busy(Disk):
        def files(self, folder: str = "") -> Mapping[str, int]:
            if folder == COPIES:
                raise error("4.zip")
            return super().files(folder)

    checkpoint(tmp_path)
    disk, was = Busy(tmp_path), content(tmp_path)
    change = change_of(disk)
    put(tmp_path, "offsets/3", "half of it")
    put(tmp_path, "state/0/1/SSTs/1.sst", "of a snapshot that comes in a moment")
    assert undo(disk, change).trouble is None
    assert content(tmp_path).keys() - was.keys() == {"state/0/1/SSTs/1.sst"}


class Copied(Disk):
    """With a copy of whose files some have been moved in.

    Args:
        in_s3: whether its store copies by itself.
        refuses: whether nothing of the copy can be deleted.
    """

    def __init__(self, root: Path, in_s3: bool, refuses: bool = False) -> None:
        checkpoint(root)
        super().__init__(root)
        self.was = content(root)
        self.change = change_of(self)
        self.copies_by_itself, self._refuses = in_s3, refuses
        put(root, "state/0/1/4.zip", "moved in")
        for name in ("4.zip", "SSTs/1.sst"):
            put(root, f"{COPIES}/copy/state/0/1/{name}", "its own")

    def delete_all(self, names: Sequence[str]) -> None:
        if self._refuses and any(COPIES in name for name in names):
            raise RuntimeError("slow down")
        super().delete_all(names)

    def delete_below(self, folder: str) -> None:
        if self._refuses:
            raise RuntimeError("it is another user's")
        super().delete_below(folder)


@pytest.mark.parametrize("in_s3", [False, True])
def test_nothing_is_left_that_a_copy_under_way_could_bring_back(tmp_path, in_s3):
    disk = Copied(tmp_path, in_s3)
    assert undo(disk, disk.change).trouble is None
    assert content(tmp_path) == disk.was
    assert [each.rpartition("/")[2] for each in disk.files(COPIES)] == ["1.sst"] * in_s3


def test_a_copy_that_can_t_be_deleted_keeps_no_query_from_starting(tmp_path):
    disk = Copied(tmp_path, in_s3=False, refuses=True)
    assert undo(disk, disk.change).trouble is None
    assert content(tmp_path) == disk.was


def test_s3_could_go_on_with_one_that_can_t_be_deleted(tmp_path):
    disk = Copied(tmp_path, in_s3=True, refuses=True)
    with pytest.raises(RuntimeError, match="slow down"):
        undo(disk, disk.change)
    disk._refuses = False
    assert undo(disk, disk.change).trouble is None
    assert content(tmp_path) == disk.was


@pytest.mark.parametrize("in_s3", [False, True])
def test_what_lands_while_it_is_undone_is_deleted_too(tmp_path, in_s3):
    """S3 may be in the middle of a copy whose driver is gone."""

    class Landing(Copied):
        def delete(self, name: str) -> None:
            super().delete(name)
            if name == "state/0/1/4.zip":
                put(tmp_path, "state/0/2/4.zip", "moved in")

    disk = Landing(tmp_path, in_s3)
    assert undo(disk, disk.change).trouble is None
    assert content(tmp_path) == disk.was


def test_what_comes_again_and_again_keeps_the_query_from_starting(tmp_path):
    class Kept(Copied):
        def delete(self, name: str) -> None:
            pass

    disk = Kept(tmp_path, in_s3=False)
    with pytest.raises(OSError, match=r"state/0/1/4.zip is still there after it was deleted"):
        undo(disk, disk.change)


@pytest.mark.parametrize(("read", "may_stay"), [(all_rows, True), (without_a_row, False)])
def test_two_kills_at_any_two_points_leave_the_old_state_or_the_new_one(tmp_path, read, may_stay):
    """With the log of its sink, which has the batch of a state that stays, and no other: nobody
    gets past one that is missing, and of one too many the output is lost."""
    first, second, stayed = 0, 0, set()
    while True:
        root, killed, killed_again = tmp_path / f"{first} {second}", False, False
        checkpoint(root, partitions=1)
        was, disk = content(root), Disk(root, first)
        try:
            changed(disk, Spark(disk, read=read), replace(PLAN, partitions=2))
        except Died:
            killed = True
        try:
            resumed(Disk(root, second))
        except Died:
            killed_again = True
            resumed(Disk(root))
        assert resumed(Disk(root)) == [], "it is over after one that went through"
        stays = "commits/3" in content(root)
        stayed.add(stays)
        assert content(root) == was | (rewritten(2) if stays else {}), (first, second)
        assert passed_over(root) == ([3] if stays else []), (first, second)
        if killed_again:
            second += 1
        elif killed:
            first, second = first + 1, 0
        else:
            break
    assert stayed == {False, may_stay}


def written(root: Path, after: int = 8) -> None:
    """A change whose new state is complete, and which was cut off before it was closed."""
    checkpoint(root)
    disk = Disk(root)
    Journal(disk).begin(change_of(disk, after=after))
    rewrite(disk, after)


@pytest.mark.parametrize(
    ("verified", "outcome", "why", "steps"),
    [
        (
            True,
            "changed",
            "an earlier driver had done it, and was ended before it said so",
            ["checking", "closing"],
        ),
        (
            False,
            "undone",
            "its driver was ended in the middle of it",
            ["checking", "undoing", "closing"],
        ),
    ],
)
def test_what_becomes_of_it_is_told_as_of_any_change(tmp_path, verified, outcome, why, steps):
    written(tmp_path)
    if verified:
        Journal(Disk(tmp_path)).verify(change_of(Disk(tmp_path)))
    [report] = resumed(Disk(tmp_path))
    told = report.change
    assert (told.id, told.before, told.after) == ("plan", 4, 8)
    assert (told.outcome, told.reason, list(told.seconds or ())) == (outcome, why, steps)


def test_one_that_is_undone_where_an_older_file_has_gone_has_failed(tmp_path):
    written(tmp_path)
    (tmp_path / "state/0/1/2.changelog").unlink()
    [report] = resumed(Disk(tmp_path))
    assert (report.change.outcome, report.change.reason) == (
        "failed",
        "its driver was ended in the middle of it; these files of the checkpoint have gone or "
        "changed: state/0/1/2.changelog",
    )
    assert resumed(Disk(tmp_path)) == []


def left_alone(root: Path) -> str:
    """Why whoever starts next undoes nothing."""
    was = content(root)
    (report,) = resumed(Disk(root))
    assert content(root) == was
    assert report.change.outcome == "failed" and report.change.reason is not None
    return report.change.reason


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
    assert resumed(Disk(tmp_path)) == []


def test_what_somebody_else_begins_after_the_logs_were_looked_at_is_not_deleted(tmp_path):
    """Such as a notebook, past the driver's fence."""
    written(tmp_path)
    begun = {"offsets/4": entry(8), "state/0/1/5.changelog": "batch 4"}

    class Late(Disk):
        def read(self, name: str) -> bytes | None:
            found = super().read(name)
            if name == "offsets/3":
                for each, text in begun.items():
                    put(tmp_path, each, text)
            return found

    assert resumed(Late(tmp_path))[0].change.outcome == "undone"
    assert begun.keys() <= content(tmp_path).keys()


def test_a_batch_of_the_query_itself_is_none_of_the_change(tmp_path):
    checkpoint(tmp_path)
    disk = Disk(tmp_path)
    Journal(disk).begin(change_of(disk))
    put(tmp_path, "offsets/3", entry(4))
    put(tmp_path, "state/0/1/4.changelog", "batch 3")
    assert "on its 4 partitions since" in left_alone(tmp_path)


def test_a_disk_that_fails_keeps_the_query_from_starting(tmp_path, capfd):
    written(tmp_path)

    class Failing(Disk):
        def delete(self, name: str) -> None:
            raise OSError("no room for a deletion")

    with pytest.raises(closing.InTheMiddle, match="no room for a deletion") as failed:
        resumed(Failing(tmp_path))
    assert f"failed: {failed.value}" in capfd.readouterr().err
    assert resumed(Disk(tmp_path))[0].change.outcome == "undone"


@pytest.mark.parametrize(
    "kind", [ConnectionRefusedError, type("Py4JNetworkError", (Exception,), {})]
)
def test_a_jvm_that_is_gone_is_said_to_be_so(tmp_path, kind):
    written(tmp_path)

    class Gone(Disk):
        def delete(self, name: str) -> None:
            raise kind("Answer from Java side is empty")

    with pytest.raises(closing.InTheMiddle, match="the JVM of its driver has ended"):
        resumed(Gone(tmp_path))


def test_what_is_done_and_can_t_be_read_keeps_the_query_from_starting(tmp_path):
    """It may be the query's own: were it undone, a batch would be lost."""
    written(tmp_path)
    put(tmp_path, "offsets/3", "v1")
    was = content(tmp_path)
    with pytest.raises(closing.InTheMiddle, match="offsets/3: is no entry of an offset log"):
        resumed(Disk(tmp_path))
    assert content(tmp_path) == was


def test_what_is_not_done_and_can_t_be_read_was_cut_off_and_is_undone(tmp_path):
    checkpoint(tmp_path)
    was, disk = content(tmp_path), Disk(tmp_path)
    Journal(disk).begin(change_of(disk))
    put(tmp_path, "offsets/3", "v1")
    assert resumed(disk)[0].change.outcome == "undone"
    assert content(tmp_path) == was


def test_an_empty_folder_that_stays_keeps_no_query_from_starting(tmp_path, capfd):
    """Such as one with checksums in it whose file is gone: Hadoop does not list these, and says
    that the folder is not empty."""
    checkpoint(tmp_path)
    disk, was = Disk(tmp_path), content(tmp_path)
    Journal(disk).begin(change_of(disk))
    rewrite(disk, 8)

    class Full(Disk):
        def delete_empty(self, folder: str) -> None:
            raise OSError(f"Directory {folder} is not empty")

    assert resumed(Full(tmp_path))[0].change.outcome == "undone"
    assert content(tmp_path) == was
    assert "stays, though empty: Directory state/0/7 is not empty" in capfd.readouterr().err
