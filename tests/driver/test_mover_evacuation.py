"""Receivers of executors that are to go are moved away."""

from dataclasses import replace

import pytest

from dagster_sparkscale.driver.executors.guard import Going
from dagster_sparkscale.driver.receivers.evacuation import AGAIN_AFTER, TELL_AFTER
from tests.driver.tracker import Spark


def test_receivers_of_executors_that_are_to_go_are_spread_over_the_others() -> None:
    """The example of SPARK-12133."""
    spark = Spark(*"01234", executors=5, cores=4)
    spark.look()
    spark.mover.going = Going(evacuated=frozenset("234"))
    waiting = spark.look().waiting
    assert waiting == ("3 receiver(s) are being moved away from executor(s) 2, 3, 4, which go then")
    assert [(stream, to) for stream, _, to in spark.tracker.sent] == [(2, "0"), (3, "1"), (4, "0")]
    for stream, _, to in spark.tracker.sent:
        spark.tracker.come_up(stream, to)
    seen = spark.look(1.0)
    assert {each.cause for each in seen.relaunches} == {"evacuation"}
    # What they took there is still to be processed.
    assert seen.unsettled == frozenset("234")
    assert seen.waiting == (
        "executor(s) 2, 3, 4 hold what receivers took there and no batch has processed yet; they "
        "go then"
    )
    spark.tracker.until = spark.now
    seen = spark.look()
    assert (seen.unsettled, seen.waiting, len(spark.tracker.sent)) == (frozenset(), None, 3)


def test_one_that_comes_up_on_another_that_is_to_go_is_sent_on() -> None:
    spark = Spark("1", executors=4)
    spark.look()
    spark.mover.going = Going(evacuated=frozenset("123"))
    spark.look()
    spark.tracker.come_up(0, "2")  # its executor was lost: Spark has chosen
    spark.look()
    assert [to for _, _, to in spark.tracker.sent] == ["0", "0"]


def test_one_that_does_not_come_up_is_sent_again_and_told_of(
    capfd: pytest.CaptureFixture[str],
) -> None:
    spark = Spark("1", executors=2)
    spark.look()
    spark.mover.going = Going(evacuated=frozenset("1"))
    spark.look()
    spark.look(AGAIN_AFTER - 1)
    assert len(spark.tracker.sent) == 1
    spark.look(1)
    assert len(spark.tracker.sent) == 2
    spark.look(1)
    assert len(spark.tracker.sent) == 2
    seen = spark.look(TELL_AFTER - AGAIN_AFTER)
    assert seen.waiting == (
        "receiver 0 was to come up on executor 0 and has not for 61 s; executor(s) 1 wait for that"
    )
    spark.look(1)
    said = "".join(capfd.readouterr())
    assert said.count("and it has not come back after 60 s") == 1


def test_where_there_is_no_core_it_stays_and_that_is_said() -> None:
    spark = Spark("0", "1", executors=2, cores=1)
    spark.look()
    spark.mover.going = Going(evacuated=frozenset("1"))
    seen = spark.look()
    assert spark.tracker.sent == []
    assert seen.waiting == (
        "no executor that stays has a core free for receiver(s) 1: theirs wait for that"
    )


def test_one_that_is_on_its_way_to_an_executor_that_leaves_is_sent_elsewhere() -> None:
    """It was chosen to leave before anybody could know that a receiver was sent there."""
    spark = Spark("0", "1")
    spark.move(0, "2")
    spark.mover.going = Going(leaving=frozenset("2"))
    spark.look(after=1)
    assert [executor for _, _, executor in spark.tracker.sent] == ["2", "0"]
    spark.tracker.come_up(0, "0")
    spark.look()
    spark.tracker.come_up(1, "2")  # Spark has started it there
    spark.look()
    assert [(stream, executor) for stream, _, executor in spark.tracker.sent[2:]] == [(1, "1")]


def test_where_nobody_else_has_room_none_is_sent_again_to_one_that_leaves() -> None:
    spark = Spark("0", "1", "1", executors=3, cores=1)
    spark.move(0, "2")
    spark.executors = [replace(each, cores=0) for each in spark.executors]
    spark.mover.going = Going(leaving=frozenset("2"))
    spark.look(after=AGAIN_AFTER)
    assert len(spark.tracker.sent) == 1


def test_one_on_its_way_to_an_executor_that_is_told_to_leave_goes_elsewhere_at_once() -> None:
    """Spark starts nothing there any more, and turns it down elsewhere until that is gone."""
    spark = Spark("0", "1")
    assert spark.move(0, "2").coming == {"2": 1}
    spark.mover.going = Going(leaving=frozenset("2"))
    spark.look(after=0.1)
    assert spark.tracker.sent[1:] == [(0, "host-0", "0")]


def test_who_has_sent_one_is_told_also_where_it_is_evacuated_on_its_way() -> None:
    spark = Spark("0", "1")
    spark.move(0, "2", operation=5)
    spark.mover.going = Going(evacuated=frozenset("2"))
    spark.look()
    assert spark.tracker.sent[1:] == [(0, "host-0", "0")]
    spark.tracker.come_up(0, "0")
    [over] = spark.look().relaunches
    assert (over.cause, over.to_executor, over.operation) == ("evacuation", "0", 5)
