"""Moving receivers where something goes wrong, with a tracker that does as Spark's does.

What goes well is tried on a real cluster (`test_receivers.py`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.evacuation import AGAIN_AFTER, SETTLE, STUCK_AFTER, TELL_AFTER
from dagster_sparkscale.driver.keeper import Going, NotReady
from dagster_sparkscale.driver.looks import EVERY
from dagster_sparkscale.driver.mover import QUIET, WATCHFUL, Mover
from dagster_sparkscale.driver.moving import CannotMove
from dagster_sparkscale.driver.private_spark import DETAILS, PrivateSpark
from dagster_sparkscale.driver.receiver_context import Bound
from dagster_sparkscale.driver.receiver_watch import Placement
from dagster_sparkscale.driver.receivers import NO_RECEIVERS, Receivers
from dagster_sparkscale.driver.wire import Executor, Relaunch


class Tracker:
    """Of Spark: a receiver that was sent somewhere is away until `come_up` is called."""

    def __init__(self, placed: Sequence[str | None], executors: int) -> None:
        self.placements = {
            stream: Placement(
                stream, executor, executor and "host", executor is not None, f"{stream}-0", "R"
            )
            for stream, executor in enumerate(placed)
        }
        self.hosts = {str(number): f"host-{number}" for number in range(executors)}
        self.sent: list[tuple[int, str, str]] = []
        self.streaming, self.tells, self.can = True, True, True
        self.until: float | None = 0.0
        self.fails: Exception | None = None
        self.fails_half_way: Exception | None = None
        self._launches = 0

    def look(self) -> Receivers | None:
        if self.fails is not None:
            raise self.fails
        if not self.streaming:
            return NO_RECEIVERS
        placed = {stream: each.executor for stream, each in self.placements.items()}
        counts = Counter(executor for executor in placed.values() if executor is not None)
        told = tuple(self.placements.values()) if self.tells else None
        hosts = self.hosts if self.tells else {}
        return Receivers(counts, placed=placed, placements=told, hosts=hosts)

    def send(self, stream: int, host: str, executor: str) -> bool:
        assert host == self.hosts[executor]
        self.sent.append((stream, host, executor))
        self.placements[stream] = replace(self.placements[stream], active=False)
        if self.fails_half_way is not None:
            raise self.fails_half_way
        return self.can

    def come_up(self, stream: int, executor: str) -> None:
        self._launches += 1
        self.placements[stream] = Placement(
            stream, executor, "host", True, f"{stream}-{self._launches}", "R"
        )

    def processed_until(self) -> float | None:
        return self.until


class Spark:
    """A mover, the tracker it asks, and a clock that a test moves on."""

    def __init__(self, *placed: str | None, executors: int = 3, cores: int = 2) -> None:
        self.tracker = Tracker(placed, executors)
        self.executors = [Executor(str(number), "host", cores) for number in range(executors)]
        self.now = 1000.0
        self.mover = Mover(PrivateSpark(), lambda: self.executors, lambda: self.now)
        self.be()

    def be(self, **more: Any) -> None:
        tracker: Any = self.tracker
        made = {"local": False, "logged": False, "task_cpus": 1, "scala": "2.13.18", **more}
        bound = Bound(tracker, **made)
        self.mover._per_context = SimpleNamespace(get=lambda: bound)  # type: ignore[assignment]

    def look(self, after: float = 0.0) -> Receivers:
        self.now += after
        seen = self.mover.look()
        assert seen is not None
        return seen

    def move(self, stream: int, executor: str, operation: int | None = None) -> Receivers:
        request = self.mover.request(stream, executor, operation)
        seen = self.look()
        request.result()
        return seen

    def refused(self, stream: int, executor: str) -> str:
        before = list(self.tracker.sent)
        with pytest.raises((CannotMove, NotReady)) as caught:
            self.move(stream, executor)
        assert self.tracker.sent == before
        return f"{type(caught.value).__name__}: {caught.value}"


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
    assert Spark().mover.pause() == EVERY
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


def test_a_move_that_was_lost_is_made_again_to_the_same_executor() -> None:
    spark = Spark("0", executors=3)
    spark.move(0, "2", operation=5)
    spark.mover.going = Going(evacuated=frozenset("1"))  # has nothing to do with it
    spark.look(AGAIN_AFTER)
    assert [to for _, _, to in spark.tracker.sent] == ["2", "2"]
    [away] = spark.look().relaunches
    assert (away.cause, away.operation, away.wanted) == ("move", 5, "2")


def test_where_there_is_no_core_it_stays_and_that_is_said() -> None:
    spark = Spark("0", "1", executors=2, cores=1)
    spark.look()
    spark.mover.going = Going(evacuated=frozenset("1"))
    seen = spark.look()
    assert spark.tracker.sent == []
    assert seen.waiting == (
        "no executor that stays has a core free for receiver(s) 1: theirs wait for that"
    )


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
    assert (seen.per_executor, seen.coming) == ({"0": 1, "1": 1}, {"2": 1})
    spark.tracker.come_up(0, "2")
    seen = spark.look()
    assert (seen.per_executor, seen.coming) == ({"1": 1, "2": 1}, {})


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
    spark.tracker.placements[0] = Placement(0, launch="None")
    seen = spark.look(after=AGAIN_AFTER)
    assert len(spark.tracker.sent) == 1
    assert [(each.executor, each.moving_to) for each in seen.told] == [(None, None), ("0", None)]
    assert (seen.relaunches, seen.coming) == ((), {})


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


def test_a_person_may_send_one_that_has_run_nowhere_for_a_while() -> None:
    spark = Spark("0", None)
    spark.look()
    spark.now += SETTLE
    spark.move(1, "2")
    assert spark.tracker.sent == [(1, "host-2", "2")]


def executor(number: str) -> Executor:
    return Executor(number, "host", 2)
