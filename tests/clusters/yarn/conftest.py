"""A real YARN, one for each process of tests that needs it."""

from collections.abc import Iterator

import pytest

from dagster_sparkscale.clusters.java import spark_home
from dev.runs import MARK
from dev.yarn.rig import Address, tethered
from tests.short_lives import EXECUTORS

INHERITED = ("JDK_JAVA_OPTIONS", MARK)
"""What containers get of these tests' environment: JVMs that start fast, and the mark by which what
is left is found."""
SMALL = {
    # Spark lies on the nodes already.
    "spark.yarn.jars": f"local:{spark_home()}/jars/*",
    "spark.yarn.appMasterEnv.SPARK_HOME": str(spark_home()),
    "spark.driver.memoryOverhead": "128m",
    "spark.executor.memoryOverhead": "128m",
    "spark.yarn.am.memoryOverhead": "128m",
    **EXECUTORS,
}


@pytest.fixture(scope="session")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with tethered(tmp_path_factory.mktemp("yarn") / "rig", passed=INHERITED) as address:
        yield address
