"""A real driver on a Spark that lacks some of the private parts that its agent would use."""

from pathlib import Path

import pytest

from dagster_sparkscale.driver import private_spark
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Cluster

pytestmark = pytest.mark.spark


def test_what_spark_lacks_costs_that_alone_and_is_told(cluster: Cluster, tmp_path: Path) -> None:
    lacking = (
        *(private_spark.DETAILS, private_spark.TRIGGER, private_spark.INTERVAL),
        *(private_spark.BATCHES, private_spark.RECEIVERS),
    )
    with cluster.driver(tmp_path, PROGRAMS / "lacking.py", initial=2) as driver:
        names = {feature.name for feature in lacking}
        driver.wait(lambda s: set(s.missing) == names, "it finds out what there is not")
        # The rest works as ever.
        seen = driver.wait(lambda s: s.registered == 2 and s.queries, "executors and queries")
        assert seen.executors == ()  # rather than some without cores
        assert seen.spark_version is not None and seen.spark_version.startswith("4.")
        rates = [query for query in seen.queries if query.name == "rates"]
        assert [(query.active, query.interval_ms) for query in rates] == [(True, None)]
        driver.wait(
            lambda s: any(batch.query == "rates" and batch.records for batch in s.batches),
            "batches of the query",
        )
        assert driver.scaled(3).requested == 3
        # Any executor may host a receiver, as the program has a graph.
        assert driver.scale(1).status_code == 200
        blocked = driver.wait(lambda s: s.blocked, "it says why none goes")
        assert blocked.blocked is not None and "where receivers run" in blocked.blocked
        assert (blocked.registered, blocked.removing) == (3, 0)
        told = [line for line in driver.log().splitlines() if "this Spark lacks" in line]
        assert sorted(line.split("lacks ")[1].split(":")[0] for line in told) == sorted(names)


def test_the_release_that_the_tests_run_on_is_one_that_was_tested() -> None:
    import pyspark

    assert ".".join(pyspark.__version__.split(".")[:2]) in private_spark.TESTED
