"""Whether a stream does better or worse than before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.backpressure.verify import measured, verdict
from tests.backpressure.histories import INTERVAL, but, minutes

BEFORE = {"minutes": 1000.0, "down": 0.0, "over": 0.3, "lag": 100.0, "input": 700.0}
BEFORE |= {"processed": 1000.0, "failed": 0.0}


def judged(before=None, least: int = 30, **after):
    was = BEFORE if before is None else before
    return verdict(was, {**BEFORE, **after}, least=least, interval=INTERVAL)


def word(*args, **after) -> str:
    return judged(*args, **after).outcome


class TestMeasured:
    def test_nothing_of_nothing(self):
        assert measured([]) == {"minutes": 0}

    def test_all_of_a_plain_day(self):
        assert measured(minutes(100, lag=5)) == {
            "minutes": 100,
            "down": 0,
            "over": 0,
            "throttled": 0,
            "lag": 5,
            "input": 700,
            "processed": 1000,
            "failed": 0,
        }

    @pytest.mark.parametrize(
        ("fields", "lacking"),
        [
            ({"lag": None}, {"lag"}),
            ({"input_rate": None}, {"input"}),
            ({"processed_rate": None}, {"processed"}),
            ({"completed": None}, {"failed"}),
            ({"failed": None}, {"failed"}),
            ({"completed": 0}, {"failed"}),
            ({"ratio": None}, {"over"}),
        ],
    )
    def test_what_was_not_measured_is_not_there(self, fields, lacking):
        found = measured(minutes(100, **{"lag": 5, **fields}))
        assert not lacking & found.keys()
        assert found["minutes"] == (0 if "ratio" in fields else 100)

    def test_over_is_a_ratio_of_one_or_a_batch_that_is_overdue(self):
        history = but(minutes(100), range(10), ratio=1.0)
        history = but(history, range(10, 30), ratio=None, overdue=1.2)
        assert measured(history)["over"] == 0.3

    def test_lag_is_that_of_all_but_the_worst_twentieth(self):
        assert measured(but(minutes(100, lag=5), range(4), lag=900))["lag"] == 5
        assert measured(but(minutes(100, lag=5), range(6), lag=900))["lag"] == 900

    def test_down_is_where_it_should_run_and_has_failed(self):
        history = but(minutes(100), range(50, 60), state="failed", ratio=None)
        assert measured(history)["down"] == 0.1
        assert measured(but(minutes(100), range(50, 60), state="stopped"))["down"] == 0

    def test_the_first_minutes_of_a_further_driver_are_not_looked_at(self):
        history = minutes(50) + minutes(50, 50, epoch=2, ratio=1.5)
        assert measured(history)["over"] == pytest.approx(45 / 95)

    def test_failed_batches_are_a_share_of_all(self):
        assert measured(but(minutes(100), range(10), completed=0, failed=6))["failed"] == 0.1
        few = but(minutes(100, completed=0), range(2), failed=1)
        assert measured(few)["failed"] == 0, "two say nothing"
        assert measured(but(few, [2], failed=1))["failed"] == 1
        unknown = but(minutes(100), range(50), failed=None)
        assert measured(but(unknown, range(50, 55), failed=6))["failed"] == pytest.approx(30 / 330)

    def test_of_a_single_driver_it_says_what_it_can(self):
        assert measured(minutes(1, epoch=7))["minutes"] == 1
        starts = minutes(1) + minutes(6, 1, epoch=2)
        assert measured(starts)["minutes"] == 2, "the last one of the second driver counts"
        stopped = minutes(1, state="stopped", epoch=None) + minutes(3, 1)
        assert measured(stopped)["minutes"] == 3


class TestVerdict:
    def test_the_same(self):
        found = judged()
        assert str(found) == (
            "same: nothing differs that was measured; 700 records/s came in, and 700 records/s "
            "before"
        )

    @pytest.mark.parametrize(
        ("after", "reason"),
        [
            ({"over": 0.36}, "minutes in which batches took longer than they have: 36% instead of"),
            (
                {"lag": 151.0},
                "lag, but in the worst twentieth of the minutes: 151 s instead of 100",
            ),
            ({"failed": 0.06}, "batches that failed: 6% instead of 0%"),
            ({"processed": 799.0}, "processed while busy: 799 records/s instead of 1,000"),
            ({"down": 0.06}, "in 6% of the minutes no driver ran that should, and 0% before"),
        ],
    )
    def test_one_that_is_worse_is_enough(self, after, reason):
        found = judged(**after)
        assert found.outcome == "worse"
        assert found.reasons[0].startswith(reason)

    @pytest.mark.parametrize(
        "after",
        [
            {"over": 0.34},
            {"lag": 150.0},
            {"failed": 0.05},
            {"processed": 800.0},
            {"down": 0.05},
        ],
    )
    def test_what_is_hardly_another_is_the_same(self, after):
        assert word(**after) == "same"

    def test_a_lag_of_less_than_an_interval_more_is_none(self):
        small = {**BEFORE, "lag": 1.0}
        assert word(small, lag=11.0) == "same"
        assert word(small, lag=11.1) == "worse"
        assert word({**BEFORE, "lag": 11.0}, lag=1.0) == "same"
        assert word({**BEFORE, "lag": 11.1}, lag=1.0) == "better"
        assert word({**BEFORE, "lag": 150.0}, lag=100.0) == "same"

    @pytest.mark.parametrize("name", ["over", "failed"])
    def test_a_twentieth_is_no_difference(self, name):
        none = {**BEFORE, name: 0.0}
        assert word(none, **{name: 0.05}) == "same"
        assert word({**BEFORE, name: 0.05}, **{name: 0.0}) == "same"
        assert word({**BEFORE, name: 0.06}, **{name: 0.0}) == "better"

    @pytest.mark.parametrize("after", [{"over": 0.24}, {"lag": 60.0}])
    def test_better(self, after):
        assert word(**after) == "better"

    def test_slower_smaller_batches_are_no_harm_where_they_have_done_good(self):
        assert word(over=0.1, processed=500.0) == "better"

    def test_slower_under_a_lower_load_says_nothing(self):
        assert word(processed=500.0, input=559.0) == "same"
        assert word(processed=500.0, input=560.0) == "worse"

    def test_under_more_load_nothing_can_be_said(self):
        assert word(input=1051.0, over=0.9, lag=900.0) == "unknown"
        for more in (771.0, 1050.0):
            assert str(judged(input=more, over=0.9)) == (
                f"unknown: not comparable: {more:,.0f} records/s came in, and 700 records/s before"
            )
            assert word(input=more, failed=0.06) == "worse", "no load is an excuse for that"
            assert word(input=more) == "same"
        assert word(input=770.0, over=0.9) == "worse"
        assert str(judged(input=1051.0)).startswith("unknown: not comparable: 1,051 records/s came")

    def test_a_limit_that_refuses_input_is_worse(self):
        """Whatever it does to the batches: with less to do they are fewer over, and sooner done."""
        before = {**BEFORE, "throttled": 0.0}
        del before["lag"]  # no source tells it
        for came in (700.0, 490.0, 420.0, 50.0):
            after = {**before, "over": 0.0, "input": came, "throttled": 1.0}
            found = verdict(before, after, least=30, interval=INTERVAL)
            assert found.outcome == "worse"
            assert found.reasons[0] == (
                "minutes in which its input stood at its limit: 100% instead of 0%"
            )
        few = {**before, "throttled": 0.05}
        assert verdict(before, few, least=30, interval=INTERVAL).outcome == "same"
        more = {**before, "throttled": 0.5, "input": 900.0}
        assert verdict(before, more, least=30, interval=INTERVAL).outcome == "unknown"
        less = {**before, "throttled": 0.0}
        was = {**before, "throttled": 0.5}
        assert verdict(was, less, least=30, interval=INTERVAL).outcome == "better"

    def test_throttled_is_a_share_of_the_minutes(self):
        assert measured(but(minutes(100), range(70), throttled="q"))["throttled"] == 0.7

    def test_worse_under_less_load_is_all_the_worse_and_better_is_not_believed(self):
        assert word(input=10.0, over=0.9) == "worse"
        assert word(input=10.0, over=0.0) == "unknown"
        assert word(input=467.0, over=0.0) == "better"
        assert word({**BEFORE, "input": 600.0}, input=400.0, over=0.0) == "better"

    def test_stuck_so_that_nothing_comes_in_is_worse(self):
        after = {name: value for name, value in BEFORE.items() if name != "input"}
        found = verdict(BEFORE, {**after, "over": 1.0}, least=30, interval=INTERVAL)
        assert found.outcome == "worse"

    @pytest.mark.parametrize("name", ["over", "lag", "failed", "input"])
    def test_what_is_not_measured_any_more_is_no_improvement(self, name):
        after = {key: value for key, value in BEFORE.items() if key != name}
        if name != "over":
            after["over"] = 0.0
        assert verdict(BEFORE, after, least=30, interval=INTERVAL).outcome == "unknown"

    def test_what_was_not_measured_before_is_not_compared(self):
        before = {key: value for key, value in BEFORE.items() if key not in ("lag", "failed")}
        assert word(before, lag=9000.0, failed=0.9) == "same"
        assert word(before, lag=9000.0, failed=0.9, over=0.9) == "worse"
        nothing = {key: value for key, value in before.items() if key != "processed"}
        assert word(nothing, processed=1.0) == "same"

    def test_without_the_load_of_before_nothing_can_be_said(self):
        before = {key: value for key, value in BEFORE.items() if key != "input"}
        assert word(before, over=0.9) == "unknown"
        assert word({**BEFORE, "input": 0.0}, over=0.9) == "unknown"

    def test_few_minutes_say_nothing_but_that_it_is_down(self):
        assert str(judged(minutes=29.0, over=0.9)) == (
            "unknown: only 29 minutes were measured since, 30 are needed"
        )
        assert word(minutes=30.0, over=0.9) == "worse"
        assert word(minutes=0.0, down=1.0) == "worse"
        assert str(judged({**BEFORE, "minutes": 29.0})) == (
            "unknown: only 29 minutes were measured before it, 30 are needed"
        )
        assert word({**BEFORE, "minutes": 30.0}) == "same"
        assert str(verdict({}, {}, least=30, interval=1)).startswith("unknown: only 0 minutes")
        assert word({"minutes": 99.0}, down=0.06) == "worse"
        assert str(judged({"minutes": 99.0}, down=0.5)).endswith("and 0% before")
        assert word({**BEFORE, "down": 0.5}, down=0.55) == "same"

    def test_each_reason_is_told(self):
        found = judged(over=0.0, lag=1.0)
        assert len(found.reasons) == 3 and found.reasons[1].endswith("1 s instead of 100 s")
        assert found.reasons[2] == "700 records/s came in, and 700 records/s before"
        assert judged(input=10.0).reasons == (
            "not comparable: 10 records/s came in, and 700 records/s before",
        )
        assert "an unknown number of records/s before" in str(judged({"minutes": 99.0}))


shares = st.floats(0, 1)
seen = st.fixed_dictionaries(
    {"minutes": st.floats(0, 2000)},
    optional={
        "down": shares,
        "over": shares,
        "lag": st.floats(0, 1e5),
        "input": st.floats(0, 1e6),
        "processed": st.floats(0, 1e6),
        "failed": shares,
    },
)


@given(seen, seen, st.sampled_from(["over", "lag", "failed", "input"]))
def test_to_measure_less_never_makes_it_better(before, after, name):
    less = {key: value for key, value in after.items() if key != name}
    found = verdict(before, less, least=30, interval=INTERVAL).outcome
    if found in ("better", "same"):
        assert name not in before or name not in after or name == "input"
        assert "input" in less


@given(seen, seen)
def test_it_always_says_why(before, after):
    found = verdict(before, after, least=30, interval=INTERVAL)
    assert found.reasons and all(found.reasons)
