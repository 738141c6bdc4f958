"""Each occurrence of a problem is told exactly once, whatever the address does in between."""

import re
import zlib
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.durations import parse_duration
from dagster_sparkscale.watch.alerts.alerts import (
    AFTER,
    AGAIN,
    SAME,
    TOLD,
    Alert,
    AlertMemory,
)
from dagster_sparkscale.watch.fleet.problems import PROBLEMS
from tests.watch.alerted import (
    AT_ONCE,
    NOW,
    PAGE,
    TAKEN,
    UNANSWERED,
    People,
    named,
    news,
    one,
    queued,
    taken,
)


def test_every_problem_has_a_time_and_words():
    assert set(AFTER) == {*PROBLEMS, "left_out", "unwatched"}
    assert all(str(Alert("problem", one(problem=p), NOW)).startswith("clicks ") for p in AFTER)
    over = [str(Alert("resolved", one(problem=p), NOW + 60)) for p in AFTER]
    assert all(re.match("clicks: resolved after 60 s; it (had|was|ran) ?", each) for each in over)
    assert not any(p in str(Alert("problem", one(problem=p), NOW)) for p in ("given_up", "pinned"))


def test_the_page_says_when_each_problem_is_told_and_when_at_the_latest():
    def seconds(text: str) -> float:
        parts = re.findall("[0-9]+ (?:min|s)", text)
        assert " ".join(parts) == text or text == "at once"
        return sum(map(parse_duration, parts))

    rows = re.findall(r"^\| `([a-z_]+)` \|.*\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.M)
    assert {problem: seconds(told) for problem, told, _ in rows} == AFTER
    late = {problem: seconds(latest) - seconds(told) for problem, told, latest in rows}
    # A tick of each sensor; of an autoscaler that is silent only that of the alerts.
    assert late == dict.fromkeys(AFTER, 65.0 + 35.0) | {"unwatched": 35.0}


def test_a_problem_is_told_once_and_once_when_it_is_over():
    people = People()
    people.learn(news(one()), AT_ONCE, NOW)
    people.learn(news(one(text="other words")), AT_ONCE, NOW + 60)
    people.learn(news(), AT_ONCE, NOW + 720)
    people.learn(news(), AT_ONCE, NOW + 780)
    first, second = people.got
    assert (str(first), first.id) == (
        "clicks has failed: exit code 1",
        "clicks/failed/100000.000/problem",
    )
    assert str(second) == "clicks: resolved after 12 min; it had failed"
    assert second.id == "clicks/failed/100000.000/resolved"


def test_that_it_is_over_may_be_left_out():
    people = People()
    people.learn(news(one()), AT_ONCE, NOW, resolved=False)
    people.learn(news(), AT_ONCE, NOW, resolved=False)
    assert named(people.got) == [("problem", "clicks", "failed")]


def test_one_that_comes_again_is_told_again():
    people = People()
    people.learn(news(one()), AT_ONCE, NOW)
    people.learn(news(one(since=NOW + SAME)), AT_ONCE, NOW + SAME)
    assert [each[0] for each in named(people.got)] == ["problem", "resolved", "problem"]


@pytest.mark.parametrize("dated", [NOW + SAME - 1, NOW - SAME + 1])
def test_one_that_is_dated_anew_a_moment_later_is_the_same(dated):
    """The autoscaler ended between its event and its cursor, and lost the date."""
    people = People()
    people.learn(news(one()), AT_ONCE, NOW)
    for _ in range(2):
        people.learn(news(one(since=dated)), AT_ONCE, NOW + 300)
    people.learn(news(), AT_ONCE, NOW + 720)
    assert [each.id for each in people.got] == [
        "clicks/failed/100000.000/problem",
        "clicks/failed/100000.000/resolved",
    ]


def test_one_that_was_over_in_between_is_told_again_however_soon():
    people = People()
    for problems in ([one()], [], [one(since=NOW + 60)]):
        people.learn(news(*problems), AT_ONCE, NOW + 60)
    assert [each[0] for each in named(people.got)] == ["problem", "resolved", "problem"]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_problem_must_last(problem):
    memory, after = AlertMemory(), {problem: 600.0}
    found = news(one(problem=problem, since=NOW))
    memory.learn(found, after, NOW + 599)
    assert not memory.queue
    memory.learn(found, after, NOW + 600)
    assert len(memory.queue) == 1


def test_one_that_did_not_last_is_neither_told_nor_said_to_be_over():
    memory = AlertMemory()
    memory.learn(news(one(problem="pinned")), {"pinned": 600.0}, NOW)
    memory.learn(news(), {"pinned": 600.0}, NOW + 60)
    assert not memory.queue


def test_nobody_is_told_of_what_is_not_asked_for():
    memory = AlertMemory()
    memory.learn(news(one(problem="lagging"), one()), {"failed": 0.0}, NOW)
    assert queued(memory) == [("problem", "clicks", "failed")]


def test_given_up_does_not_mean_that_the_failure_is_over():
    people = People()
    people.learn(news(one()), AT_ONCE, NOW)
    people.learn(news(one(problem="given_up", since=NOW + 60)), AT_ONCE, NOW + 60)
    people.learn(news(), AT_ONCE, NOW + 120)
    assert named(people.got) == [
        ("problem", "clicks", "failed"),
        ("problem", "clicks", "given_up"),
        ("resolved", "clicks", "given_up"),
    ]


def test_a_failure_that_was_told_is_over_also_where_nobody_is_told_that_it_was_given_up():
    people = People()
    for problems in ([one()], *[[one(problem="given_up", since=NOW + 60)]] * 3, []):
        people.learn(news(*problems), {"failed": 0.0}, NOW + 60)
    assert named(people.got) == [("problem", "clicks", "failed"), ("resolved", "clicks", "failed")]
    assert people.memory.told == ()


def test_a_failure_stands_until_it_is_told_that_it_was_given_up():
    people, given_up = People(), one(problem="given_up", since=NOW + 60)
    for problems, at in (([one()], 0), ([given_up], 60), ([given_up], 660), ([], 720)):
        people.learn(news(*problems), {"failed": 0.0, "given_up": 600.0}, NOW + at)
        assert len(people.memory.told) == (at < 720)
    assert named(people.got) == [
        ("problem", "clicks", "failed"),
        ("problem", "clicks", "given_up"),
        ("resolved", "clicks", "given_up"),
    ]


def test_what_is_not_listed_for_lack_of_place_is_not_over():
    memory = AlertMemory()
    memory.learn(news(one(), one("orders")), AT_ONCE, NOW)
    memory.learn(news(one(), left_out=1), AT_ONCE, NOW)
    memory.learn(news(one(), one("orders")), AT_ONCE, NOW)
    assert len(memory.queue) == 2


def test_one_that_comes_again_is_over_also_where_not_all_have_a_place():
    people = People()
    people.learn(news(one(), left_out=1), AT_ONCE, NOW)
    people.learn(news(one(since=NOW + SAME), left_out=1), AT_ONCE, NOW + SAME)
    assert [each[0] for each in named(people.got)] == ["problem", "resolved", "problem"]
    assert [each.since for each in people.memory.told] == [NOW + SAME]


def test_somebody_is_told_once_that_there_are_more_and_once_that_there_are_not():
    people = People()
    for minute, left_out in enumerate([20, 30, 5, 0, 0]):
        at = NOW + minute * 3600
        people.learn(news(at=at, left_out=left_out), AFTER, at)
    assert [str(each) for each in people.got] == [
        "fleet has more problems than are told one by one: 20 more; see the page of the fleet",
        "fleet: resolved after 3 h; it had more problems than are told one by one",
    ]


def test_what_is_remembered_is_bounded_though_there_are_always_more_than_have_a_place():
    memory = AlertMemory()
    always = [one(f"always_{n}", text="x" * 200) for n in range(95)]
    for minute in range(1440):
        now = NOW + minute * 60
        others = [one(f"s{minute}_{n}", since=now, text="x" * 200) for n in range(5)]
        memory.learn(news(*always, *others, at=now, left_out=20), AT_ONCE, now)
        assert len(taken(memory)) == (100 if minute == 0 else 5)
    assert len(memory.told) == TOLD
    assert len(memory.dump()) < 20_000
    memory.learn(news(*always), AT_ONCE, now)
    assert {each.status for each in memory.queue} == {"resolved"}
    assert len(memory.told) == 95


def test_a_fleet_that_nothing_is_heard_of_is_told():
    people = People()
    people.learn(news(), AFTER, NOW + 1799)
    assert not people.got
    people.learn(news(), AFTER, NOW + 1800)
    people.learn(news(), AFTER, NOW + 3600)
    people.learn(news(at=NOW + 3660), AFTER, NOW + 3660)
    assert [str(each)[:31] for each in people.got] == [
        "fleet is not watched: the autos",
        "fleet: resolved after 61 min; i",
    ]


def test_that_the_fleet_is_heard_of_again_is_told_also_where_not_all_problems_have_a_place():
    people = People()
    after = {"unwatched": 1800.0}
    people.learn(news(left_out=1), after, NOW + 1800)
    people.learn(news(at=NOW + 1800, left_out=1), after, NOW + 1800)
    assert named(people.got) == [
        ("problem", "fleet", "unwatched"),
        ("resolved", "fleet", "unwatched"),
    ]


def test_a_problem_that_a_later_release_has_can_be_told_of():
    assert str(Alert("problem", one(problem="dizzy"), NOW)) == "clicks dizzy: exit code 1"


def test_a_clock_that_was_set_back_makes_no_negative_time():
    assert str(Alert("resolved", one(), NOW - 5)) == "clicks: resolved after 0 s; it had failed"


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_clock_that_was_set_back_puts_no_problem_off(problem):
    people = People()
    ahead = news(one(problem=problem, since=NOW + 28_800))
    for passed in (0, 60):
        people.learn(ahead, AFTER, NOW + passed)
    assert named(people.got) == [("problem", "clicks", problem)]
    people.learn(news(at=NOW + 120), AFTER, NOW + 120)
    assert [each[0] for each in named(people.got)] == ["problem", "resolved"]


def test_a_clock_that_was_set_back_does_not_put_off_that_nobody_watches_nor_make_it_so():
    people = People()
    for passed in (0, 30, 1799):
        people.learn(news(at=NOW + 28_800), AFTER, NOW + passed)
        assert not people.got
    for passed in (1800, 1830):
        people.learn(news(at=NOW + 28_800), AFTER, NOW + passed)
    assert named(people.got) == [("problem", "fleet", "unwatched")]
    people.learn(news(at=NOW + 1860), AFTER, NOW + 1860)
    assert [str(each) for each in people.got][1:] == [
        "fleet: resolved after 31 min; it was not watched"
    ]


fleets = st.lists(
    st.tuples(
        st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from(["failed", "lagging"]))),
        st.lists(st.sampled_from([TAKEN, UNANSWERED]), max_size=6),
    ),
    max_size=20,
)


@given(fleets, st.sampled_from([60.0, AGAIN + 60]))
def test_nothing_is_told_twice_nor_that_it_is_over_unless_it_was_told(ticks, pause):
    """Fleets, and what the address does in each tick, until all is over and it takes all."""
    cursor, began, sent = None, {}, []
    calm = [(set(), [TAKEN] * 500)] * 40
    for number, (present, outcomes) in enumerate([*ticks, *calm]):
        now = NOW + number * pause
        began = {key: began.get(key, now) for key in present}
        found = [one(*key, began[key]) for key in sorted(present)]
        memory = AlertMemory.load(cursor)
        memory.learn(news(*found, at=now), AT_ONCE, now)
        for outcome in outcomes:
            if not memory.queue:
                break
            alert = memory.queue[0]
            if not memory.settle(outcome):
                break
            sent.append(alert)
        if memory.queue == ():
            told = {(each.stream, each.problem) for each in memory.told}
            assert told >= present
        cursor = memory.dump()
    assert len({each.id for each in sent}) == len(sent)
    by_id = {each.id: number for number, each in enumerate(sent)}
    problems = [each for each in by_id if each.endswith("/problem")]
    assert len(problems) * 2 == len(by_id)
    for each in problems:
        assert by_id[each] < by_id[each.replace("/problem", "/resolved")]
    assert [each.occurrence.since for each in sent if each.status == "problem"] == sorted(
        each.occurrence.since for each in sent if each.status == "problem"
    )
    assert memory.told == ()


class TestNothingWasEverTold:
    def test_it_is_told_once_after_a_pause_and_once_when_it_is_over(self):
        memory = AlertMemory()
        for passed in (0, 30, AFTER["unwatched"] - 1):
            memory.hear_nothing(AFTER, NOW + passed)
            assert not memory.queue
        for passed in (0, 30, 60):
            memory.hear_nothing(AFTER, NOW + AFTER["unwatched"] + passed)
            memory = AlertMemory.load(memory.dump())
        (alert,) = memory.queue
        assert str(alert).startswith("fleet is not watched: the autoscaler has told nothing of it ")
        assert alert.id == f"fleet/unwatched/{NOW:.3f}/problem"
        assert memory.settle(TAKEN)
        memory.learn(news(at=NOW + 3600), AFTER, NOW + 3600)
        assert queued(memory) == [("resolved", "fleet", "unwatched")]
        assert str(memory.queue[0]).startswith("fleet: resolved after 60 min; it was not watched")

    def test_what_was_told_before_stands(self):
        memory = AlertMemory()
        memory.learn(news(one()), AT_ONCE, NOW)
        taken(memory)
        memory.hear_nothing({"unwatched": 0.0}, NOW)  # its events were wiped
        assert queued(memory) == [("problem", "fleet", "unwatched")]
        assert [told.problem for told in memory.told] == ["failed", "unwatched"]

    def test_the_pause_begins_anew_after_a_word(self):
        memory = AlertMemory()
        memory.hear_nothing(AFTER, NOW)
        memory.learn(news(at=NOW + 1000), AFTER, NOW + 1000)
        memory.hear_nothing(AFTER, NOW + AFTER["unwatched"])
        assert not memory.queue

    def test_a_clock_that_is_set_back_does_not_put_it_off(self):
        memory = AlertMemory()
        memory.hear_nothing(AFTER, NOW)
        memory.hear_nothing(AFTER, NOW - 50_000)
        memory.hear_nothing(AFTER, NOW - 50_000 + AFTER["unwatched"])
        assert queued(memory) == [("problem", "fleet", "unwatched")]

    def test_nobody_is_told_where_it_is_switched_off(self):
        memory = AlertMemory()
        for passed in (0, 1e9):
            memory.hear_nothing({}, NOW + passed)
        assert not memory.queue

    def test_a_cursor_of_an_older_release_is_read(self):
        older = b'{"told": [], "queue": [], "refusals": 0, "dropped": 3}'
        memory = AlertMemory.load(b64encode(zlib.compress(older)).decode())
        assert (memory.dropped, memory.silent_since) == (3, None)
