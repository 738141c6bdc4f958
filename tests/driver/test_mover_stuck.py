"""Receivers that Spark does not get to run are sent to where there is a core."""

import pytest

from dagster_sparkscale.driver.receivers.evacuation import SETTLE, STUCK_AFTER
from dagster_sparkscale.driver.receivers.moves import paused_until
from dagster_sparkscale.driver.wire import Executor
from tests.driver.tracker import Spark


def test_one_that_spark_does_not_get_to_run_is_sent_to_where_a_core_is_free() -> None:
    """As where all of them were given the one executor that had registered by then."""
    spark = Spark("0", "0", None, executors=1)
    spark.look()
    spark.look(after=STUCK_AFTER)
    assert spark.tracker.sent == [], "there is no core for it anywhere"
    spark.tracker.hosts["1"], spark.executors = "host-1", [*spark.executors, more := executor("1")]
    assert more.cores
    spark.look()
    assert spark.tracker.sent == [(2, "host-1", "1")]
    spark.look(after=1.0)
    assert len(spark.tracker.sent) == 1
    spark.tracker.come_up(2, "1")
    [over] = spark.look(after=1.0).relaunches
    assert (over.cause, over.from_executor, over.to_executor) == ("restart", None, "1")
    assert spark.look(after=STUCK_AFTER).relaunches == (over,)
    assert len(spark.tracker.sent) == 1


def test_one_that_comes_up_by_itself_is_left_alone() -> None:
    spark = Spark("0", None)
    spark.look()
    spark.look(after=STUCK_AFTER - 0.1)
    assert spark.tracker.sent == []
    spark.tracker.come_up(1, "0")
    spark.look(after=STUCK_AFTER)
    assert spark.tracker.sent == []


def test_where_the_executor_dies_that_it_was_sent_to_and_spark_chooses_a_full_one() -> None:
    """Spark stores its choice, and starts it there for ever."""
    spark = Spark("0", "1", "1")
    spark.move(0, "2", operation=5)
    del spark.tracker.hosts["2"]
    spark.look(after=STUCK_AFTER)
    assert spark.tracker.sent[1:] == [(0, "host-0", "0")]
    spark.tracker.come_up(0, "0")
    [over] = spark.look().relaunches
    assert (over.cause, over.to_executor, over.operation) == ("move", "0", 5)


def test_what_ended_with_its_executor_is_told_so_also_where_it_has_to_be_sent() -> None:
    spark = Spark("0", "1")
    spark.look()
    del spark.tracker.hosts["1"]
    spark.look()
    seen = spark.look(after=STUCK_AFTER)
    assert [each.cause for each in seen.relaunches] == ["executor lost"]
    assert spark.tracker.sent == [(1, "host-2", "2")]


def test_of_a_local_master_none_is_sent_anywhere() -> None:
    spark = Spark("0", None)
    spark.be(local=True)
    spark.look()
    spark.look(after=STUCK_AFTER)
    assert spark.tracker.sent == []


def test_one_that_has_failed_and_pauses_by_itself_is_left_alone_until_that_is_over() -> None:
    spark = Spark("0", "1")
    spark.look()
    spark.fail(1, pause=120.0)
    spark.look(after=60.0)
    spark.look(after=60.0)
    assert spark.tracker.sent == []
    spark.look(after=SETTLE)
    assert [stream for stream, _, _ in spark.tracker.sent] == [1]


def test_a_pause_ends_with_its_executor() -> None:
    spark = Spark("0", "1")
    spark.look()
    spark.fail(1, pause=120.0)
    del spark.tracker.hosts["1"]
    spark.look()
    spark.look(after=STUCK_AFTER)
    assert [stream for stream, _, _ in spark.tracker.sent] == [1]


@pytest.mark.parametrize(
    ("message", "until"),
    [
        ("Restarting receiver with delay 120000ms: Error connecting to x:1", 1120.0),
        ("Restarting receiver with delay 2000 ms: x", 1002.0),
        ("Stopped by driver", None),
        ("", None),
    ],
)
def test_how_long_one_pauses_is_in_what_spark_says(message: str, until: float | None) -> None:
    assert paused_until(message, 1_000_000) == until


def executor(number: str) -> Executor:
    return Executor(number, "host", 2)
