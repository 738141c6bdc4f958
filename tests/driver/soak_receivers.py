"""Receivers that Spark itself never gets to run, and many that move at once."""

import contextlib
from pathlib import Path

import pytest

from tests.driver.acking import Source, jar_of_the_receiver
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Cluster
from tests.driver.test_receivers import Size, receivers_move, spread

pytestmark = pytest.mark.spark


def test_one_that_was_given_an_executor_without_a_core_for_it_comes_up_on_the_next(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Spark starts it for ever on the one executor that had registered by then, which is full."""
    settings = {
        "spark.cores.max": 6,
        "spark.executor.cores": 2,
        "spark.streaming.receiver.writeAheadLog.enable": "true",
        "spark.jars": jar_of_the_receiver(),
    }
    with (
        contextlib.closing(Source()) as source,
        cluster.driver(
            *(tmp_path / "driver", PROGRAMS / "acking.py", str(source.port), "3"),
            str(tmp_path / "out"),
            initial=1,
            settings=settings,
        ) as driver,
    ):
        seen = driver.wait(lambda s: spread(s) == [2], "two of them run", 240)
        assert seen.receivers is not None and len(seen.receivers) == 3
        seen = driver.scaled(2)
        seen = driver.wait(lambda s: spread(s) == [2, 1], "all of them run", 240)
        [came] = [each for each in seen.relaunches if each.from_executor is None]
        assert came.cause == "restart" and came.to_executor == came.wanted
        driver.wait(lambda s: any(batch.records for batch in s.batches), "batches", 240)


def test_receivers_of_five_executors_of_which_three_leave_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    receivers_move(cluster, tmp_path, Size(5, 4, (3, 2), (2, 2, 1)))
