"""A change that goes through, is put back, or fails at one moment, with Spark's part played."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state import closing, tasks
from dagster_sparkscale.driver.state.fingerprint import Rows
from dagster_sparkscale.driver.state.journal import Journal
from dagster_sparkscale.driver.wire import Reconfiguration
from tests.driver.state.disk import (
    Died,
    Disk,
    checkpoint,
    content,
    entry,
    passed_over,
    put,
)
from tests.driver.state.played import (
    Context,
    Spark,
    changed,
    resumed,
    without_a_row,
)
from tests.waiting import HANGS

STEPS = ["checking", "measuring", "writing down", "rewriting", "verifying"]


class Full(Disk):
    """It has no room for one file, of which it says so once that is written, or before."""

    def __init__(self, root: Path, name: str, *, whole: bool) -> None:
        super().__init__(root)
        self._name, self._whole = name, whole

    def write(self, name: str, content: bytes) -> None:
        if name.endswith(self._name):
            super().write(name, content if self._whole else content[:5])
            raise OSError("No space left on device")
        super().write(name, content)


def outcome(told: Reconfiguration) -> tuple[str | None, str]:
    return told.outcome, told.reason or ""


def test_it_is_changed(tmp_path):
    checkpoint(tmp_path)
    came = changed(Disk(tmp_path))
    assert (came.change.outcome, came.change.reason, came.counts) == ("changed", None, True)
    assert came.steps == [*STEPS, "closing"] and list(came.change.seconds or ()) == came.steps
    assert (came.change.before, came.change.key_groups, came.change.rows) == (4, 8, 8)
    assert came.change.group_rows == (1,) * 8
    assert (came.change.partition_rows, came.change.partition_rows_after) == ((2,) * 4, (1,) * 8)
    assert Journal(Disk(tmp_path)).begun() is None
    assert passed_over(tmp_path) == [3]


def unreadable(batch: int, rows: Rows) -> Rows:
    """The new state can't be read."""
    if batch == 2:
        return rows
    raise OSError("a block is missing")


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (
            without_a_row,
            "the new state is not the same: operator 0, store 'default': key group 0 had 1 rows "
            "and has 0",
        ),
        (unreadable, "the new state can't be read: a block is missing"),
    ],
)
def test_a_state_that_is_not_verified_is_put_back(tmp_path, read, why):
    checkpoint(tmp_path)
    was, disk = content(tmp_path), Disk(tmp_path)
    came = changed(disk, Spark(disk, read=read))
    assert (came.change.outcome, came.change.reason, came.counts) == ("undone", why, True)
    assert came.steps == [*STEPS, "undoing", "closing"]
    assert content(tmp_path) == was and passed_over(tmp_path) == []


def test_what_is_verified_stays_though_it_can_t_be_closed(tmp_path, capfd):
    """The next start does."""
    checkpoint(tmp_path)

    class Kept(Disk):
        def delete(self, name: str) -> None:
            if name.endswith("/begun"):
                raise OSError("no room for a deletion")
            super().delete(name)

    assert changed(Kept(tmp_path)).change.outcome == "changed"
    assert "stays for now: no room for a deletion" in capfd.readouterr().err
    [report] = resumed(Disk(tmp_path))
    assert report.change.outcome == "changed"
    assert resumed(Disk(tmp_path)) == [] and passed_over(tmp_path) == [3]


@pytest.mark.parametrize("whole", [True, False])
def test_no_room_to_write_down_what_there_is(tmp_path, whole):
    """Nothing was touched, and the next start must find nothing to be undone."""
    checkpoint(tmp_path)
    was = content(tmp_path)
    came, reason = outcome(changed(Full(tmp_path, "/begun", whole=whole)).change)
    assert came == "refused" and "No space left" in reason
    assert content(tmp_path) == was
    assert Journal(Disk(tmp_path)).begun() is None


@pytest.mark.parametrize("whole", [True, False])
def test_no_room_to_write_down_that_it_is_right(tmp_path, whole):
    """It is put back at once."""
    checkpoint(tmp_path)
    was = content(tmp_path)
    disk = Full(tmp_path, "/verified", whole=whole)
    came, reason = outcome(changed(disk).change)
    assert came == "undone" and "No space left" in reason
    assert content(tmp_path) == was
    assert not list((tmp_path / "_sparkscale_state").iterdir())


def test_killed_while_it_puts_back_what_it_could_not_say_is_right(tmp_path):
    """Nothing is left that says so of what is half undone."""
    checkpoint(tmp_path)
    was = content(tmp_path)

    class Dying(Full):
        def delete(self, name: str) -> None:
            if name.startswith("commits/"):
                raise Died
            super().delete(name)

    with pytest.raises(Died):
        changed(Dying(tmp_path, "/verified", whole=True))
    [report] = resumed(Disk(tmp_path))
    assert report.change.outcome == "undone"
    assert content(tmp_path) == was


@pytest.mark.parametrize("lacks", ["commits/2", "state/0/2"])
def test_a_listing_that_lacks_files_is_not_relied_on(tmp_path, lacks):
    checkpoint(tmp_path)
    was = content(tmp_path)

    class Late(Disk):
        def files(self, folder: str = "") -> Mapping[str, int]:
            there = super().files(folder).items()
            return {name: size for name, size in there if not name.startswith(lacks)}

    came, reason = outcome(changed(Late(tmp_path)).change)
    assert came == "refused" and f"lists only some of its files, and not {lacks}" in reason
    assert content(tmp_path) == was


@pytest.mark.parametrize("right", [True, False])
def test_what_another_driver_has_undone_meanwhile_is_that_one_s(tmp_path, right):
    """This one was cut off from its cluster, as by a network; the other has run a batch since."""
    checkpoint(tmp_path)
    was = content(tmp_path)

    def meanwhile() -> None:
        resumed(Disk(tmp_path))
        assert content(tmp_path) == was
        put(tmp_path, "offsets/3", entry(4))
        put(tmp_path, "commits/3", "v1\n{}")
        put(tmp_path, "state/0/1/4.changelog", "batch 3")
        runs.update(content(tmp_path))
        if not right:
            raise RuntimeError("Spark has found another's files")

    runs: dict[str, bytes] = {}
    with pytest.raises(closing.InTheMiddle, match="another driver has undone or closed it"):
        disk = Disk(tmp_path)
        changed(disk, Spark(disk, meanwhile))
    assert content(tmp_path) == runs


def outsider(root: Path, batches: int) -> dict[str, bytes]:
    """Whole batches that somebody else's Spark runs, and one that it begins; all there is then."""
    for batch in range(3, 4 + batches):
        put(root, f"offsets/{batch}", entry(4))
        for partition in range(4):
            put(root, f"state/0/{partition}/{batch + 1}.changelog", f"batch {batch}")
        if batch < 3 + batches:
            put(root, f"commits/{batch}", "v1\n{}")
    return content(root)


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_what_somebody_else_runs_in_the_middle_is_not_deleted(tmp_path, batches):
    """Such as a notebook, past the driver's fence: Spark then refuses to change the state."""
    checkpoint(tmp_path)
    disk = Disk(tmp_path)

    def meanwhile() -> None:
        ran.update(outsider(tmp_path, batches))
        raise RuntimeError("the last batch is not committed")

    ran: dict[str, bytes] = {}
    came = changed(disk, Spark(disk, before=meanwhile))
    assert content(tmp_path) == ran
    told, reason = outcome(came.change)
    assert told == "failed" and reason.startswith("Spark could not change it: the last batch is")
    assert "since" in reason and reason.endswith(": left as it is")
    assert resumed(Disk(tmp_path)) == [] and passed_over(tmp_path) == []


@pytest.mark.parametrize("lives", range(8))
def test_nor_where_the_driver_is_killed_at_any_point_after_it(tmp_path, lives):
    checkpoint(tmp_path)
    disk = Disk(tmp_path)

    def meanwhile() -> None:
        ran.update(outsider(tmp_path, 1))
        disk.lives = lives
        raise RuntimeError("the last batch is not committed")

    ran: dict[str, bytes] = {}
    with suppress(Died):
        changed(disk, Spark(disk, before=meanwhile))
    resumed(Disk(tmp_path))
    assert content(tmp_path) == ran
    assert Journal(disk).begun() is None and resumed(Disk(tmp_path)) == []


@pytest.mark.parametrize("step", ["checking", "measuring"])
def test_a_driver_that_was_asked_to_stop_begins_none(tmp_path, step):
    """Its end may come before the change is through: a pod has 30 s."""
    checkpoint(tmp_path)
    was = content(tmp_path)
    asked = iter([step == "checking", True])
    came, reason = outcome(changed(Disk(tmp_path), stopping=lambda: next(asked)).change)
    assert came == "refused" and "was asked to stop" in reason
    assert content(tmp_path) == was


class Late:
    """A task is still about to write a partition's state when the job has ended.

    Args:
        fails: whether the job has failed, by another of its tasks.
    """

    def __init__(self, disk: Disk, *, fails: bool) -> None:
        self._disk, self._fails = disk, fails
        self.go_on = threading.Event()
        self.context = Context()
        self.spark = Spark(disk, self._job, self.context)

    def _job(self) -> None:
        task = threading.Thread(target=self._write, daemon=True)
        self.context.tasks.append(task)
        task.start()
        if self._fails:
            raise RuntimeError("a task has failed")

    def _write(self) -> None:
        self.go_on.wait(HANGS)
        self._disk.write("state/0/1/4.zip", b"of the new partition 1")


def test_what_a_task_of_a_failed_job_writes_late_is_undone_too(tmp_path):
    """Else the query would find it, as a snapshot of its own next batch."""
    checkpoint(tmp_path)
    was, late = content(tmp_path), Late(Disk(tmp_path), fails=True)
    late.context.asked = late.go_on.set
    came, reason = outcome(changed(Disk(tmp_path), late.spark).change)
    assert came == "undone" and "a task has failed" in reason
    assert content(tmp_path) == was
    assert late.context.properties["spark.jobGroup.id"] == "the program's"


def test_nothing_is_verified_before_the_slower_ones_of_tasks_that_ran_twice_have_ended(tmp_path):
    checkpoint(tmp_path)
    late = Late(Disk(tmp_path), fails=False)
    late.context.asked = late.go_on.set
    assert outcome(changed(Disk(tmp_path), late.spark).change) == ("changed", "")
    assert content(tmp_path)["state/0/1/4.zip"] == b"of the new partition 1"


def test_tasks_that_do_not_end_leave_it_to_a_driver_with_executors_of_its_own(
    tmp_path, monkeypatch
):
    checkpoint(tmp_path)
    was, late = content(tmp_path), Late(Disk(tmp_path), fails=True)
    monkeypatch.setattr(tasks, "WITHIN", 0.2)
    with pytest.raises(closing.InTheMiddle, match="1 tasks of the change have not ended"):
        changed(Disk(tmp_path), late.spark)
    late.go_on.set()
    late.context.tasks[0].join(HANGS)
    [report] = resumed(Disk(tmp_path))
    assert report.change.outcome == "undone"
    assert content(tmp_path) == was
