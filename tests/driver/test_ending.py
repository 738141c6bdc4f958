"""How a real driver ends whose settings are wrong."""

from pathlib import Path

import pytest

from tests.driver.conftest import PROGRAMS
from tests.driver.running import Driver, end_report

pytestmark = pytest.mark.spark


def test_settings_that_spark_refuses_end_it_with_code_1(tmp_path: Path) -> None:
    driver = Driver(tmp_path, PROGRAMS / "endless.py", settings={"spark.master": ""})
    try:
        assert driver.exit_code() == 1
        assert "sparkscale: Spark cannot be started" in driver.log()
        assert (end_report(driver).raised or "").startswith("Spark cannot be started: ")
    finally:
        driver.kill()
