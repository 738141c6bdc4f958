"""A real driver of a program that does nothing and heeds nothing: while its JVM hangs, and its
end."""

import contextlib
from collections.abc import Iterator

import psutil
import pytest

from dagster_sparkscale.driver.ending.end_report import NOT_CLEAN
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Driver, end_report, local_driver, stop_report
from tests.driver.shared import Shared

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared[Driver]]:
    def started() -> contextlib.AbstractContextManager[Driver]:
        return local_driver(tmp_path_factory.mktemp("endless"), PROGRAMS / "endless.py")

    with Shared(started) as drivers:
        yield drivers


@pytest.fixture
def driver(drivers: Shared[Driver]) -> Driver:
    """It runs."""
    found = drivers.get(Driver.lives)
    found.wait(lambda s: s.phase == "running", "it runs")
    return found


def test_the_agent_answers_while_the_jvm_hangs_and_says_how_old_all_is(driver: Driver) -> None:
    driver.wait(lambda s: s.registered is not None, "it has seen Spark")
    [jvm] = [
        process
        for process in psutil.Process(driver.process.pid).children(recursive=True)
        if process.name() == "java"
    ]
    jvm.suspend()
    try:
        seen = driver.wait(lambda s: (s.spark_age or 0) > 4, "what it saw grows old")
        assert seen.ages is not None and set(seen.ages) == {
            *("executors", "receivers", "tasks", "dstreams", "queries")
        }
        # There is no query, so that nothing is asked of the JVM for any.
        assert all(age and age > 4 for part, age in seen.ages.items() if part != "queries")
    finally:
        jvm.resume()
    before = seen.spark_age
    driver.wait(lambda s: all(age < before for age in (s.ages or {}).values()), "it goes on")
    assert "trouble" not in driver.log()


def test_a_stop_that_is_not_graceful_is_at_once(driver: Driver) -> None:
    driver.stop(graceful=True, timeout=3600)
    # It is answered first, and then passed on.
    driver.wait(lambda s: s.phase == "stopping", "it stops")
    assert (driver.folder / "rates.json").exists()
    driver.stop(graceful=False)  # overrides the graceful one
    assert driver.exit_code() == NOT_CLEAN
    assert not (driver.folder / "rates.json").exists()


def test_a_program_that_does_not_heed_a_stop_is_ended_and_that_is_told(driver: Driver) -> None:
    seen = driver.wait(lambda s: s.registered is not None, "it has seen Spark")
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
    assert end_report(driver).stopped == stop_report(driver)
