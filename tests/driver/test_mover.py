"""Moves that are asked for, where something goes wrong.

What goes well is tried on a real cluster (`test_receivers.py`).
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from dagster_sparkscale.driver.executors.guard import Going
from dagster_sparkscale.driver.receivers.evacuation import AGAIN_AFTER, SETTLE, TELL_AFTER
from dagster_sparkscale.driver.receivers.mover import QUIET, WATCHFUL
from dagster_sparkscale.driver.receivers.watch import TrackedReceiver
from dagster_sparkscale.driver.request import NotReady
from dagster_sparkscale.driver.spark.features import DETAILS
from dagster_sparkscale.driver.spark.looks import SELDOM
from dagster_sparkscale.driver.wire import Executor, Relaunch
from tests.driver.tracker import Spark


def test_a_receiver_is_sent_once_however_often_it_is_asked_for() -> None:
    spark = Spark("0", "1")
    seen = spark.move(0, "2", operation=7)
    assert spark.tracker.sent == [(0, "host-2", "2")]
    assert [(each.executor, each.moving_to) for each in seen.told] == [(None, "2"), ("1", None)]
    spark.move(0, "2", operation=7)
    spark.move(0, "2", operation=8)
    spark.tracker.come_up(0, "2")
    spark.now += 1.5
    seen = spark.move(0, "2", operation=9)
    assert len(spark.tracker.sent) == 1
    assert seen.relaunches == (Relaunch(0, "move", "0", 1000.0, "2", "2", 1.5, operation=7),)


def test_it_looks_often_while_one_is_away() -> None:
    assert Spark().mover.pause() == SELDOM
    spark = Spark("0")
    spark.look()
    assert spark.mover.pause() == QUIET
    spark.move(0, "1")
    assert spark.mover.pause() == WATCHFUL
    spark.now += TELL_AFTER
    assert spark.mover.pause() == QUIET
    spark.tracker.come_up(0, "1")
    spark.look()
    assert spark.mover.pause() == QUIET


def test_what_can_not_be_moved_is_refused_with_what_could() -> None:
    spark = Spark("0", "1", "1", None, executors=4)
    assert spark.refused(9, "0") == (
        "CannotMove: receiver: 9: there is none of that number; there are 0, 1, 2, 3"
    )
    assert spark.refused(0, "7") == (
        "CannotMove: executor: 7: none of that id is there; there are 0, 1, 2, 3"
    )
    assert spark.refused(0, "1") == (
        "CannotMove: executor: 1: it has no core free for receiver 0: it has or is about to have 2 "
        "others, and it runs 2 tasks at once"
    )
    assert spark.refused(3, "0") == (
        "NotReady: receiver 3 is being started; ask again when it runs"
    )
    spark.mover.going = Going(frozenset("3"), frozenset("2"))
    for going in "23":
        assert spark.refused(0, going) == (
            f"CannotMove: executor: {going}: it is about to leave; choose one that stays"
        )


def test_a_core_is_what_a_task_takes() -> None:
    spark = Spark("0", "1", cores=3)
    spark.be(task_cpus=2)
    assert "it has or is about to have 1 others, and it runs 1 tasks" in spark.refused(0, "1")


def test_one_that_has_just_been_registered_is_not_ready_yet() -> None:
    spark = Spark("0", "1")
    spark.executors[2] = replace(spark.executors[2], cores=0)
    assert spark.refused(0, "2") == (
        "NotReady: how many tasks executor 2 runs at once is not known yet; ask again in a moment"
    )
    spark.executors.append(Executor("3", "host", 2))
    assert spark.refused(0, "3") == (
        "NotReady: executor 3 is being started; ask again when it runs"
    )


def test_where_cores_are_never_told_none_can_be_moved() -> None:
    spark = Spark("0", "1")
    spark.executors = []
    spark.mover._private.use(DETAILS, fail_as_absent, None)
    assert spark.refused(0, "2") == (
        "CannotMove: executor: how many tasks executor 2 runs at once is not known"
    )


def fail_as_absent() -> None:
    raise ImportError("there is no such class")


def test_one_that_is_on_its_way_takes_a_core_where_it_goes() -> None:
    spark = Spark("0", "1", "1", cores=1)
    spark.move(1, "2")
    assert "about to have 1 others" in spark.refused(0, "2")
    assert spark.refused(1, "0") == (
        "NotReady: receiver 1 is on its way to executor 2; ask again when it is there"
    )


def test_one_that_does_not_come_up_may_be_sent_elsewhere_at_last() -> None:
    spark = Spark("0", executors=3)
    spark.move(0, "1")
    spark.now += AGAIN_AFTER
    spark.move(0, "2")
    assert [executor for _, _, executor in spark.tracker.sent] == ["1", "2"]
    spark.tracker.come_up(0, "2")
    [over] = spark.look().relaunches
    assert (over.wanted, over.to_executor, over.began_at) == ("2", "2", 1000.0)


def test_one_that_has_just_failed_is_let_alone_for_a_while() -> None:
    spark = Spark("0")
    spark.look()
    spark.tracker.placements[0] = replace(spark.tracker.placements[0], active=False)
    spark.look()
    spark.now += SETTLE - 0.1
    assert "is being started" in spark.refused(0, "1")
    spark.now += 0.1
    spark.move(0, "1")
    assert len(spark.tracker.sent) == 1


def test_where_none_can_be_moved_it_says_why() -> None:
    spark = Spark("0")
    spark.be(local=True)
    assert spark.refused(0, "1") == (
        "CannotMove: executor: a local master has no executors of its own"
    )
    spark = Spark("0")
    spark.tracker.streaming = False
    assert spark.refused(0, "1") == (
        "NotReady: no StreamingContext is active: receivers can't be moved now"
    )
    spark.mover._per_context = SimpleNamespace(get=lambda: None)  # type: ignore[assignment]
    assert spark.refused(0, "1") == "NotReady: the program has stopped its SparkContext"


def test_a_spark_that_lacks_what_moves_them_tells_where_they_are() -> None:
    spark = Spark("0", "1")
    spark.tracker.tells = False
    assert spark.refused(0, "1").startswith("CannotMove: receivers: this Spark lacks what moves")
    assert [(each.stream_id, each.executor) for each in spark.look().told] == [(0, "0"), (1, "1")]


def test_a_spark_that_does_not_answer_says_so_to_who_asked() -> None:
    spark = Spark("0")
    spark.tracker.fails = RuntimeError("the endpoint is gone")
    request = spark.mover.request(0, "1", None)
    with pytest.raises(RuntimeError):
        spark.mover.look()
    with pytest.raises(NotReady, match="Spark: RuntimeError: the endpoint is gone"):
        request.result()


def test_with_a_write_ahead_log_no_batch_is_waited_for() -> None:
    spark = Spark("0")
    spark.be(logged=True)
    spark.move(0, "1")
    spark.tracker.come_up(0, "1")
    assert spark.look().unsettled == frozenset()


def test_where_batches_are_not_told_none_is_waited_for() -> None:
    spark = Spark("0")
    spark.tracker.until = None
    spark.move(0, "1")
    spark.tracker.come_up(0, "1")
    assert spark.look().unsettled == frozenset()


def test_a_move_that_was_lost_is_made_again_to_the_same_executor() -> None:
    spark = Spark("0", executors=3)
    spark.move(0, "2", operation=5)
    spark.mover.going = Going(evacuated=frozenset("1"))  # has nothing to do with it
    spark.look(AGAIN_AFTER)
    assert [to for _, _, to in spark.tracker.sent] == ["2", "2"]
    [away] = spark.look().relaunches
    assert (away.cause, away.operation, away.wanted) == ("move", 5, "2")


def test_what_it_may_cost_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    spark = Spark("0", executors=3)
    spark.be(scala="2.12.18")
    spark.move(0, "1")
    spark.tracker.come_up(0, "1")
    spark.move(0, "2")
    said = "".join(capfd.readouterr())
    assert said.count("an executor may end when a receiver on it is stopped") == 1


def test_one_that_is_only_just_seen_to_be_away_is_let_alone() -> None:
    spark = Spark("0", "1")
    spark.look()
    spark.tracker.placements[0] = replace(spark.tracker.placements[0], active=False)
    assert spark.refused(0, "2") == (
        "NotReady: receiver 0 is being started; ask again when it runs"
    )


def test_an_executor_is_told_of_that_a_receiver_is_on_its_way_to() -> None:
    spark = Spark("0", "1")
    assert spark.look().coming == {}
    seen = spark.move(0, "2")
    assert (seen.pins, seen.coming) == ({"0": 1, "1": 1}, {"2": 1})
    spark.tracker.come_up(0, "2")
    seen = spark.look()
    assert (seen.pins, seen.coming) == ({"1": 1, "2": 1}, {})


def test_what_spark_has_taken_half_note_of_is_told_again() -> None:
    spark = Spark("0", "1")
    spark.tracker.fails_half_way = TimeoutError("no answer")
    with pytest.raises(NotReady, match="TimeoutError: no answer; receiver 0 may still be moved"):
        spark.move(0, "2", operation=7)
    spark.tracker.fails_half_way = None
    seen = spark.look(after=AGAIN_AFTER)
    assert [executor for _, _, executor in spark.tracker.sent] == ["2", "2"]
    assert (seen.told[0].moving_to, seen.relaunches[0].operation) == ("2", 7)
    spark.tracker.come_up(0, "2")
    assert spark.look().told[0].executor == "2"


def test_receivers_of_another_context_are_others() -> None:
    spark = Spark("0", "1")
    spark.move(0, "2")
    spark.be()
    spark.tracker.come_up(1, "0")
    spark.tracker.placements[0] = TrackedReceiver(0, launch="None")
    seen = spark.look(after=AGAIN_AFTER)
    assert len(spark.tracker.sent) == 1
    assert [(each.executor, each.moving_to) for each in seen.told] == [(None, None), ("0", None)]
    assert (seen.relaunches, seen.coming) == ((), {})


def test_a_person_may_send_one_that_has_run_nowhere_for_a_while() -> None:
    spark = Spark("0", None)
    spark.look()
    spark.now += SETTLE
    spark.move(1, "2")
    assert spark.tracker.sent == [(1, "host-2", "2")]
