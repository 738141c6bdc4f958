"""A new state that was made while the query ran, and is put into its checkpoint when it has ended:
it stays if it is the same, and if not, the change is made as without it. Without Spark."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.fingerprint import Fingerprint, Partition, Rows
from dagster_sparkscale.driver.state.journal import Begun, Journal
from tests.driver.state.disk import Died, Disk, checkpoint, content, put, rewrite, rewritten
from tests.driver.state.played import Spark, changed, resumed

WRITES = len(rewritten(8))


class Made:
    """A copy with the new state.

    Args:
        writes: puts it into the checkpoint; why it has not, in words.
        proved: the state, where that is known to be the same.
    """

    def __init__(self, writes: Callable[[], str | None], proved: Fingerprint | None = None) -> None:
        self._writes, self.proved = writes, proved

    def write(self, noted: Begun) -> str | None:
        assert (noted.batch, noted.before, noted.after) == (2, 4, 8)
        return self._writes()


def moved_in(disk: Disk) -> Made:
    return Made(lambda: rewrite(disk, 8))


def partitions(disk: Disk) -> int | None:
    entry = disk.read("offsets/3")
    return None if entry is None else layout.bound(entry.decode(), "").partitions


def test_it_stays_where_it_is_the_same(tmp_path):
    checkpoint(tmp_path)
    disk = Disk(tmp_path)

    def never() -> None:
        raise AssertionError("Spark is asked to rewrite it")

    came = changed(disk, Spark(disk, before=never), prepared=moved_in(disk))
    assert (came.change.outcome, came.change.reason, came.change.beside) == ("changed", None, None)
    assert came.steps == ["checking", "measuring", "writing down", "verifying", "closing"]
    assert partitions(disk) == 8 and Journal(disk).begun() is None


def test_what_was_proved_while_the_query_ran_is_not_read_again(tmp_path):
    checkpoint(tmp_path)
    disk = Disk(tmp_path)
    after = Fingerprint(2, 8, {(0, "default"): Rows({}, {7: Partition(40)})})

    def never(batch, rows):
        raise AssertionError(f"the state of batch {batch} is read")

    earlier = Fingerprint(1, 4, {(0, "default"): Rows()})
    made = Made(lambda: rewrite(disk, 8), after)
    came = changed(disk, Spark(disk, read=never), prepared=made, earlier=earlier)
    assert (came.change.outcome, came.change.reason) == ("changed", None)
    assert came.steps == ["checking", "writing down", "accepting", "closing"]
    assert came.change.partition_rows_after == (0, 0, 0, 0, 0, 0, 0, 40)
    assert partitions(disk) == 8 and Journal(disk).begun() is None


def test_what_was_not_proved_is_compared_once_it_is_there(tmp_path):
    """With what it was before, which is read then, too."""
    checkpoint(tmp_path)
    disk = Disk(tmp_path)
    earlier = Fingerprint(1, 4, {(0, "default"): Rows()})
    came = changed(disk, prepared=moved_in(disk), earlier=earlier)
    assert (came.change.outcome, came.change.reason, came.change.beside) == ("changed", None, None)
    assert came.steps == ["checking", "writing down", "verifying", "closing"]


def test_what_could_not_be_put_there_is_thrown_away_and_the_change_made_without(tmp_path):
    checkpoint(tmp_path)
    disk, was = Disk(tmp_path), content(tmp_path)
    seen = []

    def half() -> str:
        put(tmp_path, "offsets/3", rewritten(8)["offsets/3"].decode())
        put(tmp_path, "state/0/5/4.zip", "half of it")
        return "no space left"

    spark = Spark(disk, before=lambda: seen.append(content(tmp_path)))
    came = changed(disk, spark, prepared=Made(half))
    assert (came.change.outcome, came.change.beside) == ("changed", "no space left")
    assert came.change.way == "in place"
    assert seen == [was]
    first = ["checking", "measuring", "writing down", "undoing"]
    assert came.steps == [*first, "checking", "writing down", "rewriting", "verifying", "closing"]
    assert partitions(disk) == 8


def test_what_is_not_the_same_is_thrown_away_and_the_change_made_without(tmp_path):
    checkpoint(tmp_path)
    disk, was = Disk(tmp_path), content(tmp_path)
    tries = []

    def read(batch, rows):
        if batch == 2 or tries:
            return rows
        return type(rows)({g: rows.groups[g] for g in list(rows.groups)[1:]}, rows.partitions)

    spark = Spark(disk, read=read, before=lambda: tries.append(content(tmp_path)))
    came = changed(disk, spark, prepared=moved_in(disk))
    assert came.change.outcome == "changed" and tries == [was]
    assert came.change.beside.startswith("the new state is not the same: operator 0")
    assert "undoing" in came.steps and "rewriting" in came.steps
    assert partitions(disk) == 8 and Journal(disk).begun() is None


def test_it_is_made_without_also_where_spark_has_cleaned_up_meanwhile(tmp_path):
    """Stores of the run that has ended go on for a minute: they delete what is older than what is
    retained, counted from the newest version that they see, which is the prepared one."""
    checkpoint(tmp_path)
    disk = Disk(tmp_path)

    def wrong() -> str:
        rewrite(disk, 8)
        disk.delete("state/0/1/1.changelog")
        return "not the same"

    came = changed(disk, Spark(disk), prepared=Made(wrong))
    assert (came.change.outcome, came.change.beside) == ("changed", "not the same")
    assert came.change.way == "in place"
    assert partitions(disk) == 8 and Journal(disk).begun() is None


def test_nothing_is_made_again_where_somebody_else_has_run_the_query(tmp_path):
    checkpoint(tmp_path)
    disk = Disk(tmp_path)

    def another() -> str:
        for batch in (3, 4):
            put(tmp_path, f"offsets/{batch}", rewritten(4)["offsets/3"].decode())
            put(tmp_path, f"commits/{batch}", "v1\n{}")
        return "it is there already"

    def never() -> None:
        raise AssertionError("Spark is asked to rewrite it")

    came = changed(disk, Spark(disk, before=never), prepared=Made(another))
    assert came.change.outcome == "failed" and "left as it is" in came.change.reason
    assert partitions(disk) == 4


def test_what_it_was_while_the_query_ran_is_still_known_where_the_change_is_made_without(tmp_path):
    """So that it is read while it is rewritten, if there are task slots for both."""
    checkpoint(tmp_path)
    disk = Disk(tmp_path)
    earlier = Fingerprint(1, 4, {(0, "default"): Rows()})
    made = Made(lambda: "no space left")
    came = changed(disk, prepared=made, earlier=earlier, slots=64)
    assert (came.change.outcome, came.change.beside) == ("changed", "no space left")
    assert "measuring" not in came.steps


@pytest.mark.parametrize("lives", range(WRITES + 8))
def test_a_driver_that_is_killed_at_any_point_leaves_the_old_state_or_the_new(tmp_path, lives):
    checkpoint(tmp_path)
    was, disk = content(tmp_path), Disk(tmp_path, lives)
    with suppress(Died):
        changed(disk, prepared=moved_in(disk))
    resumed(Disk(tmp_path))
    now = content(tmp_path)
    assert Journal(Disk(tmp_path)).begun() is None
    assert {name: now[name] for name in was} == was
    assert set(now) - set(was) in (set(), set(rewritten(8)))


@pytest.mark.parametrize("lives", range(2, 3 * WRITES + 12))
def test_also_where_it_was_thrown_away_before(tmp_path, lives):
    checkpoint(tmp_path)
    was, disk = content(tmp_path), Disk(tmp_path, lives)

    def wrong() -> str:
        rewrite(disk, 8)
        return "not the same"

    with suppress(Died):
        changed(disk, prepared=Made(wrong))
    resumed(Disk(tmp_path))
    now = content(tmp_path)
    assert {name: now[name] for name in was} == was
    assert set(now) - set(was) in (set(), set(rewritten(8)))
