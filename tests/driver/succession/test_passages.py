"""What whoever waits for a query is to make of the ends of its runs."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.succession.passages import Passages

ENDS = st.lists(st.sampled_from(["succeed", "withdraw", "ended of itself", "failed"]), max_size=8)


@given(ENDS)
def test_a_handle_of_any_run_leads_to_the_newest(ends):
    """However often a query was ended and started again, or that was tried."""
    passages, runs = Passages(), ["run 0"]
    for number, how in enumerate(ends, 1):
        passage = passages.begin(runs[-1], "query", 1, f"handle of {runs[-1]}")
        if how == "withdraw":
            passages.withdraw(passage)
            continue
        if how == "ended of itself":
            passages.give_up(passage)
            break
        passages.ended(passage)
        assert passages.between(1) == [passage]
        if how == "failed":
            passages.give_up(passage, "it can't be started")
            break
        runs.append(f"run {number}")
        passages.succeed(passage, runs[-1], f"handle of {runs[-1]}")
    broken = bool(ends) and passages.latest("run 0") is not None
    for run in runs[:-1]:
        found = passages.latest(run)
        assert found is not None
        if found.phase == "succeeded":
            assert found.successor == f"handle of {runs[-1]}"
        else:
            assert (found.run, found.phase) == (runs[-1], "over")
    if broken and passages.of(runs[-1]) is None:
        assert passages.latest(runs[-1]) is None  # it runs
    assert passages.between(1) == []


def passage(passages: Passages, run: str = "run 1"):
    return passages.begin(run, "query", 1, "handle")


def test_of_one_that_ended_of_itself_spark_tells():
    passages = Passages()
    passages.give_up(passage(passages))
    assert not passages.ends(1).ended


def test_of_one_that_was_ended_and_can_t_be_started_it_is_told_from_here():
    passages = Passages()
    one = passage(passages)
    passages.ended(one)
    passages.give_up(one, "no")
    assert (passages.ends(1).ended, passages.ends(1).error) == (True, "no")
    assert not passages.ends(2).ended
    passages.forget_ends(1)
    assert not passages.ends(1).ended


def test_of_one_that_its_program_has_stopped_meanwhile_it_is_told_without_an_error():
    passages = Passages()
    one = passage(passages)
    passages.ended(one)
    passages.give_up(one)
    assert (passages.ends(1).ended, passages.ends(1).error) == (True, None)


def test_another_s_end_that_was_taken_along_is_told():
    passages = Passages()
    passages.settle(1)
    assert (passages.ends(1).settled, passages.ends(1).ended) == (1, False)
    passages.settle(1, "the other")
    ends = passages.ends(1)
    assert (ends.settled, ends.ended, ends.query) == (2, True, "the other")
    passages.forget_ends(1)
    assert (passages.ends(1).settled, passages.ends(1).query) == (2, None)


class TestListeners:
    def test_are_not_told_of_an_end_that_is_followed_by_another_run(self):
        passages, told = Passages(), []
        one = passage(passages)
        passages.ended(one)
        assert passages.withhold("run 1", lambda: told.append(1), 0)
        passages.succeed(one, "run 2", "next")
        assert passages.withhold("run 1", lambda: told.append(2), 0)
        assert told == []

    def test_are_told_later_of_one_that_is_not(self):
        passages, told = Passages(), []
        one = passage(passages)
        passages.ended(one)
        assert passages.withhold("run 1", lambda: told.append(1), 0)
        passages.give_up(one, "no")
        assert told == [1]

    def test_are_told_of_ends_that_are_not_ours(self):
        passages = Passages()
        assert not passages.withhold("run 1", lambda: None, 0)
        passages.give_up(passage(passages))
        assert not passages.withhold("run 1", lambda: None, 0)

    def test_wait_for_what_is_not_settled(self):
        passages, held = Passages(), []
        one = passage(passages)
        thread = threading.Thread(
            target=lambda: held.append(passages.withhold("run 1", lambda: None, 60))
        )
        thread.start()
        passages.ended(one)
        thread.join()
        assert held == [True]

    @pytest.mark.parametrize("ours", [True, False])
    @pytest.mark.parametrize("goes_on", [True, False])
    def test_are_told_later_where_it_is_not_settled_in_time(self, ours, goes_on):
        passages, told = Passages(), []
        one = passage(passages)
        assert passages.withhold("run 1", lambda: told.append(1), 0.01)
        if ours:
            passages.ended(one)
            passages.succeed(one, "run 2", "next")
        elif goes_on:
            passages.withdraw(one)
        else:
            passages.give_up(one)
        assert told == ([] if ours else [1])

    def test_are_not_told_of_the_start_of_one_that_comes_after(self):
        passages = Passages()
        one = passage(passages)
        assert not passages.starts_again("query")  # it may be the program's own
        passages.ended(one)
        assert passages.starts_again("query")
        assert not passages.starts_again("another")
        passages.succeed(one, "run 2", "next")
        assert not passages.starts_again("query")


def test_who_waits_for_any_waits_until_it_is_settled_whose_end_it_is():
    passages = Passages()
    one = passage(passages)
    assert passages.wait_for_verdicts(2, 0.0)
    assert not passages.wait_for_verdicts(1, 0.0)
    passages.ended(one)
    assert passages.wait_for_verdicts(1, 0.0)
