"""The window before executors are removed, held against all asks of the past."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.autoscale.scale_down import NOTHING_ASKED, Asked, scale_down
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation

NOON = 1_700_049_600.0  # 2023-11-15 12:00 UTC
MINUTE = 60.0
POLICY = RatioPolicy(scale_down_window="30 min", max_lag="1 min")
BOUNDS = Bounds(1, 10, 1)
HOLD = Hold("R 0.50 is in between")


def to(size: int) -> ScaleTo:
    return ScaleTo(size, "R 0.20")


def after(decision, asked=NOTHING_ASKED, minute=0.0, bounds=BOUNDS, epoch=1, policy=POLICY, **seen):
    plain = {"requested": 8, "lag": 1.0}
    evaluation = Evaluation(window=60.0, **plain | seen)
    now = NOON + minute * MINUTE
    return scale_down(decision, policy, bounds, evaluation, asked, epoch, now)


def asked_before(*sizes: tuple[float, int], last=0.0, epoch=1) -> Asked:
    times = tuple((NOON + minute * MINUTE, size) for minute, size in sizes)
    return Asked(epoch, NOON + last * MINUTE, times)


asks = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2, 5, 40]),  # minutes since the one before
        st.none() | st.integers(1, 10),  # a target; None: hold
        st.sampled_from([None, None, None, "behind", "unknown", "overdue"]),
        st.sampled_from([1, 1, 1, 1, 2]),  # epoch
    ),
    max_size=60,
)


@settings(deadline=None)
@given(asks)
def test_it_is_the_largest_size_of_the_window_as_if_all_asks_were_kept(steps):
    every, asked, minute, present, before, last = [], NOTHING_ASKED, 0, 4, 0, None
    for pause, target, trouble, epoch in steps:
        minute += pause
        seen = {
            "behind": {"lag": 90.0},
            "unknown": {"lag": None, "lag_unknown": "no answer"},
            "overdue": {"overdue": 1.5},
        }.get(trouble, {})
        decision = HOLD if target is None else to(target)
        came, asked = after(decision, asked, minute, epoch=epoch, requested=present, **seen)
        if epoch != before or last is None or minute - last > 4:
            every = [(minute, present)]
        wanted = present if target is None else target
        every.append((minute, max(wanted, present) if trouble else wanted))
        largest = max(size for at, size in every if minute - at < 30)
        if target is None:
            assert came == HOLD
        elif target >= min(largest, present):
            assert came == decision
        else:
            assert isinstance(came, Hold) == (largest >= present)
            assert isinstance(came, Hold) or came.target == largest
        assert len(asked.sizes) <= 10, "no more than there are sizes"
        present = came.target if isinstance(came, ScaleTo) else present
        before, last = epoch, minute


def test_it_says_what_was_needed_and_when_it_goes_down():
    came, _ = after(to(3), asked_before((-18, 8), (-4, 5)), requested=8)
    assert came == Hold(
        "would go to 3, and 8 were needed at 11:42 UTC; goes down at 12:12 UTC at the earliest: "
        "R 0.20"
    )
    came, asked = after(to(3), asked_before((-30, 8), (-4, 5)), requested=8)
    assert came.target == 5
    assert "would go to 3, and 5 were needed at 11:56 UTC; goes down at 12:26 UTC" in came.reason
    assert asked.sizes == ((NOON - 4 * MINUTE, 5), (NOON, 3))


def test_it_is_off_by_default():
    came, _ = after(to(3), asked_before((-1, 8)), policy=RatioPolicy())
    assert came == to(3)


def test_more_executors_wait_for_nothing():
    assert after(to(9), asked_before((-1, 8)))[0] == to(9)


@pytest.mark.parametrize("trouble", [{}, {"lag": 90.0}])
def test_nor_do_they_where_what_was_asked_for_never_came_to_be(trouble):
    # Held by a pin or a budget, or taken back by a person since.
    assert after(to(5), asked_before((-1, 8)), requested=4, **trouble)[0] == to(5)
    assert after(to(5), asked_before((-1, 8)), requested=5, **trouble)[0] == to(5)


@pytest.mark.parametrize("trouble", [{}, {"lag": 90.0}, {"overdue": 2.0}])
def test_executors_that_did_not_help_were_not_needed(trouble):
    undone = ScaleTo(4, "8 executors brought 0%", not_again_for=3600.0)
    assert after(undone, asked_before((-1, 8)), **trouble)[0] == undone
    assert after(undone, None, **trouble)[0] == undone


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ({"lag": 90.0}, "lag 90.0 s is above 60 s"),
        ({"lag": None, "lag_unknown": "no answer"}, "no answer"),
        ({"overdue": 2.0}, "its batch in progress is overdue"),
    ],
)
def test_none_is_removed_while_the_stream_is_behind(seen, why):
    came, asked = after(to(3), asked_before((-1, 3)), **seen)
    assert came.reason.startswith(
        f"would go to 3, and nothing is removed while it is behind: {why}"
    )
    assert asked.sizes == ((NOON, 8),), "the window begins when it keeps up again"


def test_the_first_ask_and_that_of_another_driver_open_the_window():
    for asked in (NOTHING_ASKED, asked_before((-60, 3), last=-5), asked_before((-1, 3), epoch=2)):
        came, asked = after(to(3), asked)
        assert isinstance(came, Hold) and asked.sizes == ((NOON, 8), (NOON, 3))
    ahead = asked_before((5, 2), last=5)
    assert isinstance(after(to(3), ahead)[0], Hold), "the clock was set back"


def test_a_number_that_is_out_of_bounds_comes_back_at_once():
    assert after(to(4), asked_before((-1, 8)), bounds=Bounds(1, 4, 1))[0] == to(4)
    assert after(to(4), asked_before((-1, 8)), bounds=Bounds(1, 10, 1, useful=4))[0] == to(4)


def test_where_no_asks_are_known_it_says_what_it_would_take():
    came, asked = after(to(3), None)
    assert (came.reason, asked) == (
        "would go to 3 once no more has been needed for 30 min: R 0.20",
        None,
    )
    assert after(to(9), None)[0] == to(9) and after(HOLD, None)[0] == HOLD
