"""Which jobs a look finds: none is missed unsaid, whatever Spark's store does not tell in time."""

import pytest

from dagster_sparkscale.driver.tasks.jobs import LATE, MOST_JOBS, RECEIVERS
from tests.driver.tasks.store import Spark


def test_a_job_that_spark_lists_late_is_of_the_look_that_finds_it():
    spark = Spark()
    reader = spark.reader()
    spark.now = 1010.0
    assert reader.look().jobs == ()
    spark.ran(1008.0, 1009.5)
    spark.now = 1010.5
    assert reader.look().jobs == ((1008000, 1009500),)


def test_a_job_is_found_once():
    spark = Spark()
    reader = spark.reader()
    spark.ran(1000.0, 1001.0)
    found = []
    for spark.now in (1002.0, 1003.0, 1004.0, 1002.0 + 2 * LATE):
        found += reader.look().jobs
    assert found == [(1000000, 1001000)]


def test_the_job_of_a_receiver_is_no_batch():
    spark = Spark()
    reader = spark.reader()
    spark.ran(1000.0, 1001.0, f"{RECEIVERS} 0")
    spark.now = 1002.0
    assert reader.look().jobs == ()


@pytest.mark.parametrize(("retained", "ran"), [(20, 100), (20, 21), (1, 3), (10000, MOST_JOBS)])
def test_where_spark_may_have_forgotten_jobs_they_are_not_known(retained: int, ran: int):
    spark = Spark(retained=retained)
    reader = spark.reader()
    for number in range(ran):
        spark.ran(1000 + number / 100, 1000.005 + number / 100)
    spark.now = 1010.0
    assert reader.look().jobs is None


@pytest.mark.parametrize("retained", [20, 1000])
def test_what_spark_has_forgotten_of_an_earlier_time_costs_nothing(retained: int):
    spark = Spark(retained=retained)
    reader = spark.reader()
    for second in range(100):
        spark.ran(1000.0 + second, 1000.5 + second)
        spark.now = 1001.0 + second
        assert reader.look().jobs == ((1000000 + 1000 * second, 1000500 + 1000 * second),)


def test_a_look_that_fails_leaves_its_time_to_the_next():
    spark = Spark()
    reader = spark.reader()
    spark.ran(1000.0, 1004.0)
    spark.now, spark.broken = 1005.0, True
    with pytest.raises(OSError, match="full"):
        reader.look()
    spark.now, spark.broken = 1010.0, False
    stretch = reader.look()
    assert (stretch.began, stretch.ended) == (1000.0, 1010.0)
    assert stretch.jobs == ((1000000, 1004000),)
