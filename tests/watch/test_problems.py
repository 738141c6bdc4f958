"""What somebody should be told of, since when, and how long it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.watch.fleet.problems import (
    PROBLEMS,
    TEXT,
    UNTOLD_FOR,
    Standing,
    is_over,
    problems,
)
from dagster_sparkscale.watch.fleet.rows import SETTLED, STATES, Failing, Row

NOW = 100_000.0
MARKED = "no_data_lost"


def line(at=NOW, failing=(), **fields) -> Row:
    """The row of a stream of which these checks have failed, by name, urgent with a `!`."""
    failed = [
        Failing(name.rstrip("!"), f"text of {name}", "1" if name == MARKED else "", "!" in name)
        for name in failing
    ]
    plain = {"stream": "clicks", "asset": ("clicks",), "state": "running", "reason": "why"}
    return Row(**plain | fields, seen_at=at, failing=tuple(failed))


def lost(mark, at):
    failing = (Failing(MARKED, f"lost {mark} times", str(mark), False),)
    plain = {"stream": "clicks", "asset": ("clicks",), "state": "running"}
    return Row(**plain, seen_at=at, failing=failing)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (line(), {}),
        (line(failing=("ratio_below_one", "declaration_applied")), {}),
        (line(failing=("lag_within_limit",)), {"lagging": "text of lag_within_limit"}),
        (line(failing=("below_maximum",)), {"pinned": "text of below_maximum"}),
        (line(failing=("no_data_lost",)), {"losing_data": "text of no_data_lost"}),
        (line(failing=("below_maximum!",)), {"unhealthy": "text of below_maximum!"}),
        (line(failing=("running!", "batches_completing!")), {"unhealthy": "text of running!"}),
        (line(state="failed", failing=("running!",)), {"failed": "why"}),
        (line(state="failed", gave_up=True, failing=("running!",)), {"given_up": "why"}),
        (line(state="orphan"), {"orphaned": "why"}),
        (line(state="stopped", failing=("running", "lag_within_limit")), {}),
        (line(state="not started", failing=("running",)), {}),
        (line(state="unknown", failing=("running!",)), {"unhealthy": "text of running!"}),
    ],
)
def test_what_is_a_problem(row, found):
    assert {name: each.text for name, each in problems(row, {}).items()} == found


def test_a_long_text_is_cut():
    (standing,) = problems(line(state="orphan", reason="x\n" * 1000), {}).values()
    assert len(standing.text) == TEXT
    assert standing.text.endswith(" x...") or standing.text.endswith("x ...")


def test_a_problem_is_dated_to_when_it_was_first_seen():
    first = problems(line(failing=("below_maximum",)), {})
    later = problems(line(NOW + 600, failing=("below_maximum",)), first)
    assert (later["pinned"].since, later["pinned"].seen) == (NOW, NOW + 600)
    assert problems(line(NOW + 660), later) == {}
    again = problems(line(NOW + 700, failing=("below_maximum",)), {})
    assert again["pinned"].since == NOW + 700


@pytest.mark.parametrize(
    ("problem", "row"),
    [
        ("lagging", {"untold": ("lag_within_limit",)}),
        ("pinned", {"untold": ("below_maximum",), "state": "failed"}),
        ("failed", {"state": "starting"}),
        ("failed", {"state": "unknown"}),
        ("failed", {"since": NOW - SETTLED + 1}),
        ("failed", {"since": NOW - SETTLED, "looping": True}),
        ("given_up", {"state": "failed"}),
        ("given_up", {"state": "unknown"}),
        ("given_up", {"state": "starting"}),
        ("losing_data", {"untold": ("no_data_lost",)}),
    ],
)
def test_what_cannot_be_told_stands(problem, row):
    before = {problem: Standing(1.0, NOW - 5, "as it was")}
    assert problems(line(**row), before)[problem] == before[problem]


@pytest.mark.parametrize(
    ("problem", "check"), [("lagging", "lag_within_limit"), ("pinned", "below_maximum")]
)
def test_what_cannot_be_told_for_long_is_forgotten(problem, check):
    row = line(untold=(check,))
    assert problems(row, {problem: Standing(1.0, NOW - UNTOLD_FOR + 1, "")})
    assert not problems(row, {problem: Standing(1.0, NOW - UNTOLD_FOR, "")})


@pytest.mark.parametrize(
    ("problem", "check"), [("lagging", "lag_within_limit"), ("losing_data", "no_data_lost")]
)
def test_a_clock_that_was_set_back_makes_none_stand_for_longer(problem, check):
    ahead = Standing(NOW + 28_800, NOW + 28_800, "")
    assert problems(line(untold=(check,)), {problem: ahead})[problem].seen == NOW


@pytest.mark.parametrize(
    ("problem", "row"),
    [
        ("failed", {}),
        ("failed", {"since": NOW - SETTLED}),
        ("failed", {"state": "stopped"}),
        ("failed", {"state": "failed", "gave_up": True}),
        ("given_up", {"state": "running"}),
        ("given_up", {"state": "stopped"}),
        ("unhealthy", {"state": "failed"}),
        ("lagging", {}),
        ("lagging", {"state": "stopped", "untold": ("lag_within_limit",)}),
        ("orphaned", {}),
        ("losing_data", {}),
    ],
)
def test_what_is_over(problem, row):
    assert problem not in problems(line(**row), {problem: Standing(1.0, NOW - 5, "")})


def test_given_up_takes_the_place_of_failed_also_where_it_cannot_be_told():
    before = {"given_up": Standing(1.0, 1.0, "")}
    assert problems(line(state="failed"), before) == before


class TestLostData:
    def test_more_of_it_within_an_hour_is_the_same_problem(self):
        first = problems(lost(1, NOW), {})
        more = problems(lost(2, NOW + 60), first)["losing_data"]
        assert (more.since, more.seen, more.mark, more.text) == (NOW, NOW + 60, "2", "lost 2 times")

    def test_it_is_over_when_no_more_was_lost_for_an_hour_though_the_check_stays_failed(self):
        standing = problems(lost(1, NOW), {})
        later = problems(lost(1, NOW + UNTOLD_FOR), standing)
        assert later == standing
        assert not is_over("losing_data", later["losing_data"], NOW + UNTOLD_FOR - 1)
        assert is_over("losing_data", later["losing_data"], NOW + UNTOLD_FOR)

    def test_it_is_over_an_hour_after_a_clock_was_set_back_that_dated_it(self):
        standing = problems(lost(1, NOW + 28_800), {})
        for later in (0, UNTOLD_FOR - 1, UNTOLD_FOR):
            standing = problems(lost(1, NOW + later), standing)
            over = is_over("losing_data", standing["losing_data"], NOW + later)
            assert over == (later == UNTOLD_FOR)

    def test_more_of_it_after_that_is_a_new_one(self):
        standing = problems(lost(1, NOW), {})
        new = problems(lost(2, NOW + UNTOLD_FOR), standing)["losing_data"]
        assert (new.since, new.seen) == (NOW + UNTOLD_FOR, NOW + UNTOLD_FOR)

    def test_other_problems_are_never_over_while_they_stand(self):
        standing = Standing(1.0, 1.0, "")
        assert not any(is_over(p, standing, NOW) for p in PROBLEMS if p != "losing_data")


rows = st.builds(
    line,
    st.floats(0, 1e9),
    st.lists(st.sampled_from([c.value for c in Health] + ["running!", "batches_completing!"])),
    state=st.sampled_from(STATES),
    gave_up=st.booleans(),
    untold=st.lists(st.sampled_from([c.value for c in Health])).map(tuple),
)


@given(st.lists(rows, max_size=8))
def test_the_same_again_changes_no_date_and_failed_and_given_up_are_one(looks):
    standing = {}
    for row in looks:
        standing = problems(row, standing)
        again = problems(row, standing)
        assert {p: s.since for p, s in again.items()} == {p: s.since for p, s in standing.items()}
        assert not {"failed", "given_up"} <= set(standing)
        assert set(standing) <= set(PROBLEMS)
