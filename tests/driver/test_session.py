"""The context that a program finds, and the settings that it makes for it."""

import json
import sys
from pathlib import Path

import pytest

from dagster_sparkscale.driver.backpressure.part import receivers_begin_with
from dagster_sparkscale.driver.spark.session import executors_python
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Driver
from tests.waiting import wait_for


@pytest.mark.parametrize(
    ("master", "configured", "set_already", "python"),
    [
        ("spark://host:7077", None, None, None),  # as found on the workers
        ("spark://host:7077", None, "/opt/python", None),
        ("spark://host:7077", "/conf/python", None, "/conf/python"),
        ("spark://host:7077", "/conf/python", "/opt/python", "/conf/python"),
        ("local[2]", None, None, sys.executable),
        ("local[2]", None, "/opt/python", None),
    ],
)
def test_executors_run_the_python_that_is_named_or_the_one_they_find(
    master: str, configured: str | None, set_already: str | None, python: str | None
) -> None:
    environment = {} if set_already is None else {"PYSPARK_PYTHON": set_already}
    assert executors_python(master, configured, environment) == python


@pytest.mark.clusters
@pytest.mark.spark
def test_a_program_has_the_settings_that_it_would_have_without_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the state folder has no room for a second word of the driver's."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # as where Dagster uses Spark Connect
    monkeypatch.setenv("SPARK_API_MODE", "connect")
    # Nobody has the one of the settings, so that it is seen which one is taken.
    settings = {
        "spark.master": "local[1]",
        "spark.pyspark.python": "/no/such/python",
        # Spark adds to it, and nobody has asked for what it was before.
        "spark.executor.extraJavaOptions": "-Dsomething=1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
    }
    said = tmp_path / "said"
    program = PROGRAMS / "settings.py"
    driver = Driver(tmp_path, program, str(said), sys.executable, settings=settings)
    try:
        word = tmp_path / "agent.json"
        wait_for("the agent to be announced", word.exists, about=driver.log)
        word.unlink()  # while Spark starts
        (word / "in the way").mkdir(parents=True)
        assert driver.exit_code() == 0, driver.log()
    finally:
        driver.kill()
    assert json.loads(said.read_text()) == {
        "shuffle.partitions": "7",
        "session.timeZone": "Asia/Tokyo",
        "ansi.enabled": "false",
        "warehouse.dir": f"file:{said}-warehouse",
        "memory": "512m",
        "python": sys.executable,
    }
    told = [line for line in driver.log().splitlines() if "not applied" in line]
    assert len(told) == 1
    assert "spark.executor.memory = 3g (it is spark.executor.memory = 512m)" in told[0]
    assert "SPARK_CONNECT_MODE_ENABLED is not heeded" in driver.log()
    assert "cannot be told: [Errno 21] Is a directory" in driver.log()


@pytest.mark.parametrize(
    ("limits", "has", "first"),
    [
        ({}, "", None),
        ({"clicks": {"maxRate": 5}}, "", None),
        ({"receiver-0": {"maxRate": 5}}, "", "5"),
        ({"receiver-0": {"maxRate": 0.5}}, "", "1"),
        ({"receiver-0": {"maxRate": 5}, "*": {"maxRate": 7}}, "", "7"),
        ({"receiver-0": {"maxRate": 5}}, "9", "5"),
        ({"receiver-0": {"maxRate": 5}}, "5", None),
        ({"receiver-0": {"maxRate": 5}}, "many", None),
        ({"receiver-0": 5}, "", None),
    ],
)
def test_receivers_with_a_limit_do_not_begin_without(
    limits: dict[str, object], has: str, first: str | None
) -> None:
    assert receivers_begin_with(json.dumps(limits) if limits else "", has) == first
