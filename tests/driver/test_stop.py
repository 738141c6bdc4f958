"""Real drivers that are asked to stop: where their queries are ended, and what is told of it."""

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale.driver.begin.fence import FILE
from dagster_sparkscale.driver.ending.end_report import NOT_CLEAN, StoppedQuery
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Driver, end_report, stop_report
from tests.waiting import HANGS, patience, wait_for

pytestmark = pytest.mark.spark


@contextlib.contextmanager
def running(folder: Path, *queries: str, within: float | None = None) -> Iterator[Driver]:
    """A driver with these queries.

    Args:
        within: seconds that a SIGTERM gives it; None: as many as it gives by itself.
    """
    program = PROGRAMS / "busy.py"
    settings = {
        "spark.master": "local[2]",
        "spark.sparkscale.checkpointLocation": str(folder / "marked"),
    }
    options = () if within is None else ("--term-seconds", f"{within:g}")
    driver = Driver(folder, program, str(folder), *queries, settings=settings, options=options)
    try:
        driver.wait(lambda s: len(s.queries) == len(queries), f"it runs {queries}")
        yield driver
    finally:
        driver.kill()


def batches(folder: Path, log: str) -> list[int]:
    """The numbers of the batches in one log of a checkpoint."""
    return sorted(int(file.name) for file in (folder / log).iterdir() if file.name.isdigit())


def mark_says_ended(folder: Path) -> bool:
    """Whether the driver has said in its checkpoint that it is done with it."""
    return bool(json.loads((folder / "marked" / FILE).read_text())["ended"])


def begun(folder: Path, query: str, number: int) -> None:
    """Wait until a query has planned a batch."""
    offsets = folder / f"of-{query}" / "offsets"
    wait_for(f"batch {number} of {query}", (offsets / str(number)).exists)


@pytest.mark.clusters
def test_a_sigterm_ends_queries_between_two_batches_and_the_program_after_the_last_of_them(
    tmp_path: Path,
) -> None:
    """The program would end Spark once one query has ended, which is held back."""
    with running(tmp_path, "busy", "asleep", "quiet", "slow", within=HANGS) as driver:
        begun(tmp_path, "busy", 3)
        wait_for("the sleeper's batch", (tmp_path / "of-asleep" / "commits" / "0").exists)
        wait_for("the slow one's batch", (tmp_path / "waits").exists)
        driver.process.send_signal(signal.SIGTERM)
        wait_for("the program sees one end", (tmp_path / "ending").exists, about=driver.log)
        assert driver.status().phase == "stopping"
        assert not mark_says_ended(tmp_path)  # the slow one's batch goes on
        (tmp_path / "go").touch()
        assert driver.exit_code() == 0
    assert mark_says_ended(tmp_path)
    last = {name: batches(tmp_path / f"of-{name}", "commits")[-1] for name in ("busy", "slow")}
    for name, number in last.items():
        assert batches(tmp_path / f"of-{name}", "offsets")[-1] == number
    assert {each.name for each in tmp_path.glob("worked-*")} == {
        f"worked-{number}" for number in range(last["busy"] + 1)
    }
    stopped = stop_report(driver)
    assert stopped.clean and stopped.graceful and stopped.ended_itself and stopped.sigterm
    assert {query.name: query for query in stopped.queries} == {
        "busy": StoppedQuery("busy", True, last["busy"]),
        "asleep": StoppedQuery("asleep", True, 0),
        "quiet": StoppedQuery("quiet", True, None),
        "slow": StoppedQuery("slow", True, last["slow"]),
    }
    assert end_report(driver).stopped == stopped
    assert f"stop requested, by SIGTERM, graceful, within {HANGS:g} s" in driver.log()
    assert f"busy: drained, batch {last['busy']} done" in driver.log()
    assert "the program has ended by itself" in driver.log()


@pytest.mark.clusters
def test_a_query_that_is_cut_is_not_told_as_drained(tmp_path: Path) -> None:
    with running(tmp_path, "slow", "quiet") as driver:
        wait_for("its batch", (tmp_path / "waits").exists)
        driver.stop(timeout=patience(3.0))  # by then the quiet one must have been drained
        assert driver.exit_code() == NOT_CLEAN
    stopped = stop_report(driver)
    assert (stopped.clean, stopped.graceful, stopped.ended_itself) == (False, True, False)
    assert not stopped.sigterm
    assert set(stopped.queries) == {
        StoppedQuery("slow", False, None),
        StoppedQuery("quiet", True, None),
    }
    assert "slow: cut, no batch done" in driver.log()


@pytest.mark.clusters
def test_a_second_sigterm_ends_it_at_once(tmp_path: Path) -> None:
    with running(tmp_path, "slow") as driver:
        wait_for("its batch", (tmp_path / "waits").exists)
        driver.process.send_signal(signal.SIGTERM)
        driver.wait(lambda s: s.phase == "stopping", "it stops")
        assert "stop requested, by SIGTERM, graceful, within 30 s" in driver.log()
        driver.process.send_signal(signal.SIGTERM)
        assert driver.exit_code() == NOT_CLEAN
    assert (stop_report(driver).graceful, stop_report(driver).ended_itself) == (False, False)
    assert end_report(driver).stopped == stop_report(driver)
    assert json.loads((tmp_path / "stopped.json").read_text())["queries"][0]["drained"] is False


@pytest.mark.clusters
def test_a_query_that_cannot_be_made_to_wait_is_stopped_and_told_of_truly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # py4j then has no thread of the JVM for each of ours, which could hold a lock.
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    with running(tmp_path, "busy") as driver:
        begun(tmp_path, "busy", 2)
        driver.stop()
        code = driver.exit_code()
    last = batches(tmp_path / "of-busy", "commits")[-1]
    drained = batches(tmp_path / "of-busy", "offsets")[-1] == last
    assert stop_report(driver).queries == (StoppedQuery("busy", drained, last),)
    assert code == (0 if drained else NOT_CLEAN)
