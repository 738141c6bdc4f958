"""What is told of receivers, from what Spark's tracker says at one look after the other."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.receivers.watch import MOST, ReceiverWatch, TrackedReceiver
from dagster_sparkscale.driver.wire import Receiver, Relaunch

THREE = ("0", "1", "2")
RUNS = TrackedReceiver(7, "0", "host-a", True, "start-1", "SocketReceiver-7")
STOPPED = replace(RUNS, active=False)


def watching(placement: TrackedReceiver = RUNS) -> ReceiverWatch:
    """That has seen a receiver run at 100."""
    watch = ReceiverWatch()
    assert watch.see([placement], THREE, 100.0) == ()
    return watch


def on(executor: str, launch: str = "start-2") -> TrackedReceiver:
    return TrackedReceiver(7, executor, f"host-of-{executor}", True, launch, "SocketReceiver-7")


def test_a_receiver_that_runs_is_told_of_since_it_was_seen_there() -> None:
    watch = watching()
    assert watch.see([RUNS], THREE, 110.0) == ()
    assert watch.receivers() == (
        Receiver(7, "SocketReceiver-7", executor="0", host="host-a", since=100.0),
    )
    assert watch.relaunches() == () == watch.away and not watch.ordered


def test_one_that_is_started_for_the_first_time_is_not_away() -> None:
    watch = ReceiverWatch()
    watch.see([TrackedReceiver(7)], THREE, 100.0)
    assert watch.receivers() == (Receiver(7),)
    assert watch.away == ()
    assert watch.see([RUNS], THREE, 103.0) == ()
    assert watch.receivers()[0].since == 103.0


def test_a_move_is_told_from_the_word_to_the_place() -> None:
    watch = watching()
    watch.order(7, "2", "move", 110.0, operation=12)
    gone = Relaunch(7, "move", "0", 110.0, wanted="2", operation=12)
    assert watch.relaunches() == (gone,)
    [told] = watch.receivers()
    assert (told.executor, told.moving_to, told.since) == (None, "2", None)
    # It has not heard of it yet; then it has; then it is elsewhere.
    assert watch.see([RUNS], THREE, 110.1) == ()
    assert watch.ordered[7].executor == "2"
    assert watch.see([STOPPED], THREE, 110.3) == ()
    over = replace(gone, to_executor="2", away_seconds=1.5)
    assert watch.see([on("2")], THREE, 111.5) == (over,)
    assert watch.relaunches() == (over,) and not watch.ordered and watch.away == ()
    [told] = watch.receivers()
    assert (told.executor, told.moving_to, told.since) == ("2", None, 111.5)
    assert watch.left == {"0": 111.5}


def test_one_that_comes_up_elsewhere_says_where_it_was_to_be() -> None:
    watch = watching()
    watch.order(7, "2", "evacuation", 110.0)
    [over] = watch.see([on("1")], THREE, 112.0)
    assert (over.wanted, over.to_executor, over.cause) == ("2", "1", "evacuation")


def test_one_that_is_sent_on_is_away_since_it_first_was() -> None:
    watch = watching()
    watch.order(7, "2", "evacuation", 110.0)
    watch.see([STOPPED], THREE, 120.0)
    watch.order(7, "1", "evacuation", 130.0)
    assert watch.ordered[7].at == 130.0
    [over] = watch.see([on("1")], THREE, 131.0)
    assert (over.began_at, over.wanted, over.away_seconds) == (110.0, "1", 21.0)


def test_one_that_is_sent_while_it_is_away_is_told_as_sent() -> None:
    watch = watching()
    watch.see([STOPPED], THREE, 110.0)
    watch.order(7, "2", "move", 115.0, operation=3)
    assert watch.away == (Relaunch(7, "move", "0", 110.0, wanted="2", operation=3),)
    order = watch.ordered[7]
    assert (order.executor, order.cause, order.at, order.operation) == ("2", "move", 115.0, 3)
    assert order.launch == "start-1"


def test_where_one_runs_or_ran_last() -> None:
    watch = watching()
    assert watch.standings(115.0)[7].executor == "0"
    watch.see([STOPPED], THREE, 110.0)
    assert watch.standings(115.0)[7].executor == "0"
    [told] = watch.receivers()
    assert (told.executor, told.host, told.since) == (None, None, None)
    watch.see([on("1")], THREE, 111.0)
    assert watch.standings(115.0)[7].executor == "1"
    assert 8 not in watch.standings(115.0)


def test_all_that_are_over_since_the_look_before_are_told() -> None:
    watch = ReceiverWatch()
    runs = [replace(RUNS, stream_id=id, launch=f"{id}-1") for id in range(3)]
    watch.see(runs, THREE, 100.0)
    again = [replace(each, launch=f"{each.stream_id}-2") for each in runs[:2]]
    over = watch.see([*again, runs[2]], THREE, 110.0)
    assert [each.stream_id for each in over] == [0, 1]


def test_the_latest_are_remembered_and_those_that_are_away_among_them() -> None:
    watch = watching()
    for number in range(MOST + 5):
        watch.see([on("1", f"start-{number + 2}")], THREE, 200.0 + number)
    began = [each.began_at for each in watch.relaunches()]
    assert began == [200.0 + number for number in range(5, MOST + 5)]
    watch.order(7, "2", "move", 300.0)
    told = watch.relaunches()
    assert len(told) == MOST and told[-1].began_at == 300.0 and told[0].began_at == 206.0


def test_the_loss_of_an_executor_is_told_as_such() -> None:
    watch = watching()
    # The tracker takes it for active until it starts it again.
    assert watch.see([RUNS], ("1", "2"), 110.0) == ()
    assert watch.receivers()[0].executor is None
    assert watch.away == (Relaunch(7, "executor lost", "0", 110.0),)
    [over] = watch.see([on("1")], ("1", "2"), 114.0)
    assert (over.cause, over.from_executor, over.to_executor) == ("executor lost", "0", "1")
    assert over.away_seconds == 4.0
    assert watch.left == {}  # what is not there holds nothing


def test_it_may_be_seen_to_have_ended_before_its_executor_is_seen_to_be_gone() -> None:
    watch = watching()
    watch.see([STOPPED], THREE, 110.0)
    assert watch.away[0].cause == "restart"
    watch.see([STOPPED], ("1", "2"), 111.0)
    assert watch.away[0].cause == "executor lost"


def test_a_move_stays_one_when_the_executor_is_lost_meanwhile() -> None:
    watch = watching()
    watch.order(7, "2", "evacuation", 110.0)
    watch.see([STOPPED], ("1", "2"), 111.0)
    assert watch.away[0].cause == "evacuation"


def test_a_receiver_that_fails_and_starts_again_where_it_was() -> None:
    watch = watching()
    watch.see([replace(STOPPED, error="refused")], THREE, 110.0)
    [over] = watch.see([RUNS], THREE, 112.0)  # the same start: its supervisor tries again
    assert over == Relaunch(7, "restart", "0", 110.0, to_executor="0", away_seconds=2.0)
    [told] = watch.receivers()
    assert (told.executor, told.since, told.error) == ("0", 112.0, "refused")
    assert watch.left == {}


def test_what_happens_between_two_looks_is_told_all_the_same() -> None:
    watch = watching()
    [over] = watch.see([on("1")], THREE, 110.0)
    assert (over.cause, over.away_seconds) == ("restart", 0.0)
    [over] = watch.see([on("2", "start-3")], ("0", "2"), 120.0)
    assert (over.cause, over.from_executor, over.to_executor) == ("executor lost", "1", "2")
    assert watch.left == {"0": 110.0}


def test_what_receivers_left_is_settled_by_a_later_batch() -> None:
    watch = watching()
    watch.see([on("1")], THREE, 110.0)
    watch.settle(109.9)
    assert watch.left == {"0": 110.0}
    watch.settle(110.0)
    assert watch.left == {}


def test_where_batches_are_not_told_nothing_waits_for_them() -> None:
    watch = watching()
    watch.see([on("1")], THREE, 110.0)
    watch.settle(None)
    assert watch.left == {}


def test_receivers_of_a_graph_that_is_stopped_are_not_away() -> None:
    watch = watching()
    watch.see([STOPPED], THREE, 110.0)
    watch.see([], THREE, 111.0)
    assert watch.away == () == watch.receivers() == watch.relaunches()


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["runs", "stopped", "order", "forgotten"]),
        st.integers(0, 2),
        st.sampled_from(THREE),
        st.sets(st.sampled_from(THREE)),
    ),
    max_size=200,
)


@given(EVENTS)
def test_it_is_never_told_that_one_is_both_here_and_away(events: list[Any]) -> None:
    watch, placements, now, over = (
        ReceiverWatch(),
        dict[int, TrackedReceiver](),
        0.0,
        list[Relaunch](),
    )
    for what, id, executor, present in events:
        now += 1
        if what == "order" and id in placements:
            watch.order(id, executor, "move", now, operation=int(now))
        elif what == "forgotten":
            placements.pop(id, None)
        elif what == "runs":
            placements[id] = TrackedReceiver(id, executor, "h", True, f"start-{now}", "R")
        elif id in placements:
            placements[id] = replace(placements[id], active=False)
        over += watch.see(placements.values(), present, now)
        away = {each.stream_id: each for each in watch.away}
        for told in watch.receivers():
            assert (told.executor is None) == (told.since is None)
            assert told.stream_id not in away or told.executor is None
            assert (told.moving_to is not None) == (told.stream_id in watch.ordered)
        assert {told.stream_id for told in watch.receivers()} == set(placements)
        relaunches = watch.relaunches()
        assert len(relaunches) <= MOST
        assert list(relaunches) == sorted(relaunches, key=lambda each: each.began_at)
        assert set(away.values()) <= set(relaunches)
        closed = [each for each in relaunches if each.to_executor is not None]
        assert all((each.away_seconds or 0) >= 0 for each in closed)
        assert sorted(over[-len(closed) :] if closed else [], key=str) == sorted(closed, key=str)


def test_what_one_says_on_being_sent_away_is_no_failure_of_it() -> None:
    """As that its last block could not be written: its supervisor has closed the log by then."""
    watch = watching()
    watch.order(7, "2", "move", 110.0)
    watch.see([replace(STOPPED, error="Error in block pushing thread")], THREE, 110.3)
    watch.see([on("2")], THREE, 111.5)
    assert watch.receivers()[0].error is None
    watch.see([replace(on("2"), error="refused")], THREE, 112.0)
    assert watch.receivers()[0].error == "refused"
