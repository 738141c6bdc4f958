"""Queries whose progress Spark tracks asynchronously: how their end is reported, on real Spark."""

from pathlib import Path

import pytest

from dagster_sparkscale.driver.ending.between_batches import unwritten
from dagster_sparkscale.driver.ending.end_report import NOT_CLEAN, StoppedQuery
from tests.driver.conftest import PROGRAMS
from tests.driver.running import local_driver, stop_report


@pytest.mark.parametrize(
    ("done", "completed", "again"),
    [(None, None, False), (3, None, False), (3, 3, False), (None, 0, True), (3, 4, True)],
)
def test_what_is_not_in_the_log_is_done_again(
    done: int | None, completed: int | None, again: bool
) -> None:
    assert unwritten(done, completed) is again


@pytest.mark.spark
@pytest.mark.clusters
@pytest.mark.parametrize(("every", "repeats"), [("0", False), ("3600000", True)])
def test_a_graceful_stop_says_what_the_next_start_does_again(
    tmp_path: Path, every: str, repeats: bool
) -> None:
    """Both logs end with the same batch, though others came after it."""
    program = PROGRAMS / "asynchronous.py"
    with local_driver(tmp_path, program, str(tmp_path), every) as driver:
        driver.wait(lambda s: s.batches and (s.batches[-1].batch_id or 0) >= 5, "five batches")
        driver.stop()
        assert driver.exit_code() == (NOT_CLEAN if repeats else 0)
        (query,) = stop_report(driver).queries
    ends = [
        max(int(each.name) for each in (tmp_path / "checkpoint" / log).iterdir() if is_entry(each))
        for log in ("offsets", "commits")
    ]
    assert ends == [query.batch_id, query.batch_id]
    assert query == StoppedQuery("late", not repeats, query.batch_id, repeats)
    assert ("does again" in query.in_words()) is repeats


def is_entry(file: Path) -> bool:
    return file.name.isdigit()
