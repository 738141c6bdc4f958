"""How a real driver ends: its exit code, and what is left."""

from pathlib import Path

import pytest

from dagster_sparkscale.driver.last_words import LastWords
from dagster_sparkscale.driver.stopped import NOT_CLEAN
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Driver, last_words, told
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

LOCAL = {"spark.master": "local[1]"}


def test_a_program_that_raises_ends_with_its_traceback_and_code_1(tmp_path: Path) -> None:
    driver = Driver(tmp_path, PROGRAMS / "crash.py", settings=LOCAL)
    try:
        assert driver.exit_code() == 1
        assert "RuntimeError: the program is broken" in driver.log()
        assert "runpy" not in driver.log()
        assert last_words(driver) == LastWords(raised="RuntimeError: the program is broken")
    finally:
        driver.kill()


def test_a_program_that_does_not_heed_a_stop_is_ended_and_that_is_told(tmp_path: Path) -> None:
    driver = Driver(tmp_path, PROGRAMS / "endless.py", settings=LOCAL)
    try:
        seen = driver.wait(lambda s: s.phase == "running", "it runs")
        assert (seen.registered, seen.blocked) == (0, "a local master has no executors of its own")
        answer = driver.scale(2)
        assert answer.status_code == 503
        assert "local master" in answer.json()["error"]
        driver.stop(graceful=True, timeout=3600)
        driver.stop(graceful=True, timeout=1)  # asked again, it can only be sooner
        driver.stop(graceful=True, timeout=3600)
        assert driver.exit_code() == NOT_CLEAN
        assert "the program has not ended in time" in driver.log()
        assert "the program did not end in time and was ended" in driver.log()
        assert last_words(driver).stopped == told(driver)
    finally:
        driver.kill()


def test_a_stop_that_is_not_graceful_is_at_once(tmp_path: Path) -> None:
    driver = Driver(tmp_path, PROGRAMS / "endless.py", settings=LOCAL)
    try:
        driver.wait(lambda s: s.phase == "running", "it runs")
        driver.stop(graceful=True, timeout=3600)
        # It is answered first, and then passed on.
        driver.wait(lambda s: s.phase == "stopping", "it stops")
        assert (tmp_path / "rates.json").exists()
        driver.stop(graceful=False)  # overrides the graceful one
        assert driver.exit_code() == NOT_CLEAN
        assert not (tmp_path / "rates.json").exists()
    finally:
        driver.kill()


def test_it_runs_though_the_state_folder_has_no_room_for_a_second_word(tmp_path: Path) -> None:
    driver = Driver(
        tmp_path, PROGRAMS / "settings.py", str(tmp_path / "said"), "python3", settings=LOCAL
    )
    try:
        word = tmp_path / "agent.json"
        wait_for("the agent to be announced", word.exists, about=driver.log)
        word.unlink()  # while Spark starts
        (word / "in the way").mkdir(parents=True)
        assert driver.exit_code() == 0, driver.log()
        assert "cannot be told: [Errno 21] Is a directory" in driver.log()
    finally:
        driver.kill()


def test_settings_that_spark_refuses_end_it_with_code_1(tmp_path: Path) -> None:
    driver = Driver(tmp_path, PROGRAMS / "endless.py", settings={"spark.master": ""})
    try:
        assert driver.exit_code() == 1
        assert "sparkscale: Spark cannot be started" in driver.log()
        assert (last_words(driver).raised or "").startswith("Spark cannot be started: ")
    finally:
        driver.kill()
