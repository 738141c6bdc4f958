"""A real driver whose JVM hangs for a while."""

from pathlib import Path

import psutil
import pytest

from tests.driver.conftest import PROGRAMS
from tests.driver.running import Driver

pytestmark = pytest.mark.spark


def test_the_agent_answers_while_the_jvm_hangs_and_says_how_old_all_is(tmp_path: Path) -> None:
    driver = Driver(tmp_path, PROGRAMS / "endless.py", settings={"spark.master": "local[1]"})
    try:
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
                *("executors", "receivers", "dstreams", "queries")
            }
            # There is no query, so that nothing is asked of the JVM for any.
            assert all(age and age > 4 for part, age in seen.ages.items() if part != "queries")
        finally:
            jvm.resume()
        before = seen.spark_age
        driver.wait(lambda s: all(age < before for age in (s.ages or {}).values()), "it goes on")
        assert "trouble" not in driver.log()
    finally:
        driver.kill()
