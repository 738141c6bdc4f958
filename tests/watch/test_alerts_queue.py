"""Alerts that an address does not take, problems that come and go, and what a cursor keeps."""

import random
import zlib
from base64 import b64encode
from dataclasses import replace
from string import ascii_letters

import pytest

from dagster_sparkscale.watch.alerts.alerts import (
    AGAIN,
    REFUSALS,
    TOLD,
    WAITING,
    AlertMemory,
)
from dagster_sparkscale.watch.cursor import ROOM
from dagster_sparkscale.watch.fleet.news import Occurrence
from tests.watch.alerted import (
    AT_ONCE,
    NOW,
    REFUSED,
    TAKEN,
    UNANSWERED,
    People,
    news,
    one,
    queued,
    taken,
)


class TestAnAddressThatDoesNotTakeIt:
    def test_down_it_loses_nothing_and_gets_nothing_twice(self):
        memory = AlertMemory()
        memory.learn(news(one("a")), AT_ONCE, NOW)
        for _ in range(100):
            assert not memory.settle(UNANSWERED)
        memory.learn(news(one("a"), one("b")), AT_ONCE, NOW)
        assert [each.occurrence.stream for each in taken(memory)] == ["a", "b"]
        assert memory.dropped == 0

    def test_refusing_it_is_asked_a_few_times_and_then_the_alert_is_dropped_and_counted(self):
        memory = AlertMemory()
        memory.learn(news(one("a"), one("b")), AT_ONCE, NOW)
        for _ in range(REFUSALS):
            assert len(memory.queue) == 2
            assert not memory.settle(REFUSED)
        assert memory.refusals == 0
        assert (queued(memory), memory.dropped) == ([("problem", "b", "failed")], 1)
        for _ in range(REFUSALS - 1):
            memory.settle(REFUSED)
        assert memory.settle(TAKEN)
        assert (memory.queue, memory.dropped) == ((), 0)

    def test_what_waits_is_bounded_and_what_has_no_room_is_told_when_there_is(self):
        memory, found = AlertMemory(), [one(f"s{n}") for n in range(WAITING + 5)]
        memory.learn(news(*found), AT_ONCE, NOW)
        assert (len(memory.queue), memory.dropped) == (WAITING, 0)
        assert len(memory.dump()) < 10_000
        assert memory.settle(TAKEN)
        memory.learn(news(*found), AT_ONCE, NOW)
        assert len(memory.queue) == WAITING
        got = taken(memory)
        memory.learn(news(*found), AT_ONCE, NOW)
        got += taken(memory)
        assert {each.occurrence.stream for each in got} == {f"s{n}" for n in range(1, WAITING + 5)}
        memory.learn(news(), AT_ONCE, NOW)
        assert len(memory.queue) == WAITING + 5

    def test_whatever_problems_say_the_cursor_fits_and_no_alert_is_lost(self):
        chance = random.Random(1)

        def long(length: int) -> str:
            return "".join(chance.choices(ascii_letters, k=length))

        def many(at: float) -> list[Occurrence]:
            # As many as an event of the fleet has, with the longest texts.
            return [one(long(40), "failed", at, long(200)) for _ in range(100)]

        people, found = People(), many(NOW)
        people.learn(news(*found), AT_ONCE, NOW)
        for minute in range(1, 4):  # some are over, and of others is not known whether they are
            found, at = many(NOW + 60 * minute), NOW + 60 * minute
            people.learn(news(*found, left_out=1 - minute % 2), AT_ONCE, at)
        memory, last = people.memory, many(NOW + 300)
        memory.learn(news(*last), AT_ONCE, NOW + 300)
        waiting = [each.id for each in memory.queue]
        whole = len(memory._text())
        text = memory.dump()
        assert whole > ROOM >= len(text)
        again = AlertMemory.load(text)
        assert [each.id for each in again.queue] == waiting
        assert {each.stream for each in again.told} >= {each.stream for each in last}
        again.learn(news(*last), AT_ONCE, NOW + 360)
        assert [each.id for each in again.queue] == waiting

    def test_problems_that_come_and_go_by_the_thousand_are_not_all_remembered(self):
        people, at = People(), NOW
        for group in range(20):
            found = [one(f"stream_{group}_{number}_" + "x" * 40) for number in range(100)]
            for problems in (found, [], found, []):
                at += 20
                people.learn(news(*(replace(each, since=at) for each in problems)), AT_ONCE, at)
        assert len(people.memory.told) <= TOLD
        assert len(people.memory.dump()) <= ROOM

    def test_of_more_problems_than_are_listed_none_is_told_twice_and_all_that_end_are(self):
        chance, people, at = random.Random(1), People(), NOW
        after = {"lagging": 0.0, "pinned": 0.0}
        every = [one(f"stream_{number}", what) for number in range(125) for what in after]
        for _ in range(60):
            at += 60
            listed = chance.sample(every, 100)  # the worst, which wavers
            people.learn(news(*listed, at=at, left_out=len(every) - 100), after, at)
        assert len(people.got) == len({each.id for each in people.got}) == len(every)
        people.learn(news(at=at + 60), after, at + 60)
        ends = [each for each in people.got if each.status == "resolved"]
        assert len(ends) == len(every)

    def test_a_problem_that_was_over_before_it_was_told_is_not_told_but_counted(self):
        memory = AlertMemory()
        memory.learn(news(one("a"), one("b")), AT_ONCE, NOW)
        memory.settle(REFUSED)
        memory.learn(news(one("b")), AT_ONCE, NOW)
        assert (queued(memory), memory.dropped) == ([("problem", "b", "failed")], 1)
        assert memory.refusals == 0
        memory.settle(REFUSED)
        memory.learn(news(one("b"), one("c")), AT_ONCE, NOW)
        memory.learn(news(one("b")), AT_ONCE, NOW)
        assert (memory.dropped, memory.refusals) == (2, 1)

    def test_one_that_may_have_arrived_though_nobody_answered_is_told_to_be_over(self):
        memory = AlertMemory()
        memory.learn(news(one("a"), one("b")), AT_ONCE, NOW)
        memory.settle(UNANSWERED)
        memory = AlertMemory.load(memory.dump())
        memory.learn(news(), AT_ONCE, NOW)
        assert queued(memory) == [("problem", "a", "failed"), ("resolved", "a", "failed")]
        memory.settle(TAKEN)
        assert not memory.tried

    def test_given_up_takes_the_place_of_a_failure_that_waits(self):
        memory = AlertMemory()
        memory.learn(news(one()), AT_ONCE, NOW)
        memory.learn(news(one(problem="given_up")), AT_ONCE, NOW)
        assert (queued(memory), memory.dropped) == ([("problem", "clicks", "given_up")], 0)

    def test_that_one_is_over_is_not_told_where_it_was_refused_that_there_is_one(self):
        memory = AlertMemory()
        memory.learn(news(one("a"), one("b")), AT_ONCE, NOW)
        for _ in range(REFUSALS):
            memory.settle(REFUSED)
        memory.settle(TAKEN)
        memory.learn(news(), AT_ONCE, NOW)
        assert queued(memory) == [("resolved", "b", "failed")]


class TestWhatComesAndGoes:
    """`one` is over twice, within `AGAIN`."""

    def twice(self, problem="unhealthy") -> People:
        people = People()
        for problems, at in (([one(problem=problem)], 0), ([], 60)):
            people.learn(news(*problems), AT_ONCE, NOW + at)
        again = one(problem=problem, since=NOW + AGAIN - 1)
        people.learn(news(again), AT_ONCE, NOW + AGAIN - 1)
        people.learn(news(), AT_ONCE, NOW + AGAIN + 60)
        return people

    def test_is_over_when_it_has_stayed_away(self):
        people = self.twice()
        assert [each.status for each in people.got] == ["problem", "resolved", "problem"]
        people.learn(news(), AT_ONCE, NOW + 2 * AGAIN - 2)
        assert len(people.got) == 3
        people.learn(news(), AT_ONCE, NOW + 2 * AGAIN - 1)
        assert people.got[-1].id == f"clicks/unhealthy/{NOW + AGAIN - 1:.3f}/resolved"

    def test_is_the_same_when_it_comes_a_third_time(self):
        people = self.twice()
        for minute in range(5):
            third = one(problem="unhealthy", since=NOW + 2 * AGAIN - 60 + minute * 600)
            people.learn(news(third), AT_ONCE, third.since)
            people.learn(news(), AT_ONCE, third.since + 60)
        assert len(people.got) == 3

    def test_comes_again_after_a_while_as_a_new_one(self):
        people = People()
        people.learn(news(one()), AT_ONCE, NOW)
        people.learn(news(), AT_ONCE, NOW)
        people.learn(news(one(since=NOW + AGAIN)), AT_ONCE, NOW + AGAIN)
        people.learn(news(), AT_ONCE, NOW + AGAIN + 60)
        assert [each.status for each in people.got] == ["problem", "resolved"] * 2

    def test_that_nobody_was_told_of_does_not_count(self):
        memory = AlertMemory()
        for problems in ([one()], [], [one(since=NOW + 200)]):
            memory.learn(news(*problems), AT_ONCE, NOW + 200)
        (told,) = memory.told
        assert not told.comes_and_goes

    def test_that_a_person_has_ended_is_over(self):
        assert [each.status for each in self.twice("given_up").got] == ["problem", "resolved"] * 2

    def test_with_a_clock_that_was_set_back_is_over(self):
        people = self.twice()
        people.learn(news(at=NOW), AT_ONCE, NOW)
        assert people.got[-1].status == "resolved"


class TestItsCursor:
    def test_is_read_as_it_was_written(self):
        memory = AlertMemory()
        memory.learn(news(one(), one("b")), AT_ONCE, NOW)
        memory.settle(TAKEN)
        memory.settle(REFUSED)
        assert AlertMemory.load(memory.dump()) == memory

    @pytest.mark.parametrize("text", ["", "null", "[]", "{", '{"queue": 5}', '{"told": [1]}'])
    def test_that_cannot_be_read_is_a_new_beginning(self, text):
        cursor = b64encode(zlib.compress(text.encode())).decode()
        assert AlertMemory.load(cursor) == AlertMemory()

    @pytest.mark.parametrize("cursor", [None, "", "{}", "e30=", "\udce9"])
    def test_that_is_none_is_a_new_beginning(self, cursor):
        assert AlertMemory.load(cursor) == AlertMemory()
