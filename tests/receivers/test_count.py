"""How many receivers a stream needs, by what it takes."""

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.declare.decisions import Hold, ReceiversTo
from dagster_sparkscale.declare.limits import StreamingLimits
from dagster_sparkscale.declare.receivers import ReceiverCount, ReceiverPolicy
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.receivers.count import (
    AGAIN_AFTER,
    KEPT,
    Counted,
    capacity_of,
    count,
    learned,
    still_known,
)
from tests.fakes import dstream

POLICY = ReceiverCount(minimum=1, maximum=6)


def seen(rate: float | None = 250.0, **fields: Any) -> Evaluation:
    plain = {"window": 60.0, "uptime": 5000.0, "ratio": 0.5, "gathered_rate": rate}
    return Evaluation(**{**plain, "batch_interval": 10.0, **fields})


def now(running: int | None = 2, **fields: Any) -> Counted:
    plain = {"running": running, "asked": running or 2, "places": 20, "capacity": 100.0}
    return Counted(**{**plain, **fields})


def decided(rate: float | None, running: int = 2, **fields: Any) -> int | str:
    """What is decided: a number, or why none is."""
    found = count(POLICY, seen(rate, **fields), now(running))
    return found.receivers if isinstance(found, ReceiversTo) else found.reason


class TestByRate:
    # With 100 records/s each: up from 180 on, down to one at 60 and below.
    @pytest.mark.parametrize(
        ("rate", "to"),
        [(180, 3), (250, 3), (5000, 3), (60, 1), (0, 1), (179.9, None), (60.1, None)],
    )
    def test_up_and_down_and_the_dead_band_between(self, rate: float, to: int | None) -> None:
        found = decided(rate)
        assert found == to if to is not None else isinstance(found, str)

    def test_it_says_what_it_went_by(self) -> None:
        up = count(POLICY, seen(180), now(2))
        assert up == ReceiversTo(
            3,
            "180 records/s are 0.90 of what 2 receivers can take (100 each), at or above 0.9: "
            "2 -> 3",
        )
        down = count(POLICY, seen(50), now(2))
        assert down.reason == (
            "50 records/s are 0.25 of what 2 receivers can take (100 each): 0.50 of what 1 can "
            "take is at or below 0.6: 2 -> 1"
        )
        assert decided(100) == (
            "100 records/s are 0.50 of what 2 receivers can take (100 each), below 0.9, and fewer "
            "would be above 0.6"
        )

    def test_a_larger_step_goes_as_far_as_is_called_for(self) -> None:
        policy = ReceiverCount(maximum=6, step=3)
        assert count(policy, seen(300), now(2)).receivers == 4  # 3 would stand at 1.0
        assert count(policy, seen(5000), now(2)).receivers == 5
        assert count(policy, seen(110), now(6)).receivers == 3
        assert count(policy, seen(10), now(6)).receivers == 3

    def test_what_fewer_can_not_carry_stays_whatever_the_step(self) -> None:
        policy = ReceiverCount(maximum=6, step=3)
        assert count(policy, seen(290), now(6)).receivers == 5
        assert isinstance(count(policy, seen(310), now(6)), Hold)

    @given(
        st.floats(0, 1e6),
        st.integers(1, 8),
        st.floats(1, 1e4),
        st.floats(0.5, 1.0),
        st.floats(0.05, 0.49),
        st.integers(1, 4),
    )
    def test_a_constant_input_is_never_answered_by_both(
        self, rate: float, running: int, capacity: float, up: float, down: float, step: int
    ) -> None:
        """Followed for long enough it comes to rest: no restart after restart."""
        policy = ReceiverCount(
            maximum=8, scale_up_ratio=up, scale_down_ratio=down, step=step, minimum=1
        )
        steps = [running]
        for _ in range(20):
            found = count(policy, seen(rate), now(steps[-1], capacity=capacity))
            if isinstance(found, Hold):
                break
            assert 1 <= found.receivers <= 8
            assert 0 < abs(found.receivers - steps[-1]) <= step
            steps.append(found.receivers)
        else:
            pytest.fail(f"no rest: {steps}")
        assert steps in (sorted(steps), sorted(steps, reverse=True)), "one direction"

    @given(st.floats(0, 1e6), st.integers(1, 8), st.integers(2, 9))
    def test_a_core_stays_free_for_batches(self, rate: float, running: int, places: int) -> None:
        found = count(ReceiverCount(maximum=8, step=8), seen(rate), now(running, places=places))
        if isinstance(found, ReceiversTo):
            assert found.receivers < places


class TestBounds:
    def test_at_the_maximum_it_holds(self) -> None:
        assert decided(5000, 6).endswith("at or above 0.9, but 6 are the maximum")  # type: ignore[union-attr]

    def test_so_it_does_where_more_would_leave_no_core(self) -> None:
        found = count(POLICY, seen(5000), now(3, places=4))
        assert found.reason.endswith("but 3 are as many as leave a core for batches")

    def test_a_number_outside_is_brought_back(self) -> None:
        found = count(ReceiverCount(minimum=2, maximum=3), seen(None), now(5))
        assert found == ReceiversTo(3, "5 receivers are outside the bounds 2 to 3")
        assert count(ReceiverCount(minimum=2, maximum=3), seen(None), now(1)).receivers == 2
        assert count(POLICY, seen(None), now(4, places=3)).receivers == 2

    def test_no_places_are_any_number_of_them(self) -> None:
        assert count(POLICY, seen(5000), now(5, places=None)).receivers == 6
        assert count(POLICY, seen(5000), now(6, places=None)).reason.endswith("6 are the maximum")

    def test_at_the_minimum_it_holds(self) -> None:
        assert isinstance(decided(0, 1), str)
        assert isinstance(count(ReceiverCount(minimum=2, maximum=6), seen(0), now(2)), Hold)

    def test_one_receiver_is_told_of_as_one(self) -> None:
        assert "of what 1 receiver can take" in str(decided(70, 1))


class TestHolds:
    @pytest.mark.parametrize(
        ("rate", "fields", "words"),
        [
            (250, {"uptime": 59}, "has not run for a whole window yet"),
            (250, {"uptime": None}, "has not run for a whole window yet"),
            (250, {"uptime": 899}, "changed 900 s after a start at the earliest"),
            (None, {}, "what its receivers take is not known: no batch completed"),
            (250, {"ratio": 1.0}, "its batches do not fit into their interval as it is"),
            (250, {"overdue": 1.5}, "its batches do not fit into their interval as it is"),
            (
                250,
                {"throttled": "q", "throttled_by": "estimator"},
                "the executors bound the input: more receivers bring no more",
            ),
            (10, {"throttled": "q", "throttled_by": "set"}, "but the input stands at its limit"),
            (10, {"overdue": 1.5}, "but a batch is overdue"),
            (10, {"catching_up": -0.1}, "but it falls behind its source"),
        ],
    )
    def test_what_speaks_against_it(
        self, rate: float | None, fields: dict[str, Any], words: str
    ) -> None:
        said = decided(rate, **fields)
        assert isinstance(said, str) and words in said

    def test_a_window_and_a_pause_that_are_just_over_are_enough(self) -> None:
        policy = ReceiverCount(maximum=6, cooldown=60)
        assert count(policy, seen(250, uptime=60.0), now(2)).receivers == 3
        assert "falls behind" in str(decided(10, catching_up=-0.05))

    def test_limits_of_receivers_and_a_lag_that_falls_do_not(self) -> None:
        assert decided(250, throttled="q", throttled_by="max_rate") == 3
        assert decided(10, catching_up=0.2) == 1
        assert decided(250, ratio=None) == 3

    def test_a_number_that_is_not_known_is_none(self) -> None:
        assert count(POLICY, seen(), now(None)).reason == (
            "the number of its receivers is not known"
        )

    def test_a_program_that_goes_by_no_number_is_not_restarted_over_and_over(self) -> None:
        found = count(POLICY, seen(5000), now(2, asked=3))
        assert isinstance(found, Hold)
        assert found.reason.startswith("2 receivers run, and 3 were to be started: the program has")

    def test_a_change_that_failed_is_tried_again_much_later(self) -> None:
        soon, late = (seen(5000, uptime=AGAIN_AFTER + by) for by in (-1, 0))
        found = count(POLICY, soon, now(2, cause=KEPT))
        assert "is tried again 6 h after that" in found.reason
        assert count(POLICY, late, now(2, cause=KEPT)).receivers == 3

    def test_without_a_capacity_nothing_is_guessed(self) -> None:
        found = count(POLICY, seen(5000), now(2, capacity=None))
        assert isinstance(found, Hold) and "can take is not known: declare capacity" in found.reason


class TestLearned:
    AT_LIMIT: ClassVar[dict[str, Any]] = {"throttled": "q", "throttled_by": "max_rate"}
    BEHIND: ClassVar[dict[str, Any]] = {"lag": 21.0, "catching_up": -0.05}

    def test_at_limits_of_their_own_they_take_what_they_can(self) -> None:
        for by in ("max_rate", "source"):
            assert learned(seen(300, throttled="q", throttled_by=by), 3) == 100

    def test_at_a_limit_that_somebody_has_set_they_show_nothing(self) -> None:
        """A person who calms a stream is not answered by more receivers."""
        for by in ("set", "tuned"):
            assert learned(seen(300, throttled="q", throttled_by=by), 3) is None

    def test_at_a_limit_of_what_executors_process_they_show_nothing(self) -> None:
        for by in ("estimator", "start", None):
            fields = {**self.BEHIND, "throttled": "q", "throttled_by": by}
            assert learned(seen(300, **fields), 3) is None

    def test_a_window_is_enough(self) -> None:
        assert learned(seen(300, uptime=60.0, **self.AT_LIMIT), 3) == 100

    def test_falling_behind_a_source_they_take_what_they_can(self) -> None:
        assert learned(seen(300, **self.BEHIND), 2) == 150

    @pytest.mark.parametrize(
        "fields",
        [
            {"lag": 20.0},  # two batches are always behind
            {"lag": None},
            {"catching_up": -0.04},
            {"catching_up": None},
            {"ratio": 1.0},  # it is the executors
            {"ratio": None},
            {"overdue": 1.2},
        ],
    )
    def test_unless_it_may_be_something_else(self, fields: dict[str, Any]) -> None:
        assert learned(seen(300, **{**self.BEHIND, **fields}), 2) is None

    @pytest.mark.parametrize(
        ("rate", "receivers", "fields"),
        [
            (None, 2, {}),
            (0.0, 2, {}),
            (300, None, {}),
            (300, 0, {}),
            (300, 2, {"uptime": 59.0}),
            (300, 2, {"uptime": None}),
        ],
    )
    def test_what_is_not_measured_shows_nothing(
        self, rate: float | None, receivers: int | None, fields: dict[str, Any]
    ) -> None:
        assert learned(seen(rate, **{**self.AT_LIMIT, **fields}), receivers) is None

    def test_what_was_learned_is_known_until_something_else_shows(self) -> None:
        assert still_known(100.0, seen(50), 2) == 100
        assert still_known(None, seen(50), 2) is None
        assert still_known(100.0, seen(300, **self.AT_LIMIT), 2) == 150
        for rate, receivers in ((None, 2), (0.0, 2), (500, None), (500, 0)):
            assert still_known(100.0, seen(rate), receivers) == 100

    def test_who_takes_more_could_take_more_than_was_learned(self) -> None:
        assert still_known(100.0, seen(250), 2) == 100
        assert still_known(100.0, seen(251), 2) is None
        for uptime in (59.0, None):
            assert still_known(100.0, seen(251, uptime=uptime), 2) == 100, "a window says it"


class TestLimitsThatAreSet:
    """The number of receivers is no way past a limit that somebody has set."""

    @pytest.mark.parametrize(
        ("by", "words"),
        [
            ("set", "that is set (by set_limits run 1): raise it"),
            ("tuned", "that was tuned to what the executors do (by set_limits run 1): raise it"),
        ],
    )
    def test_no_more_receivers(self, by: str, words: str) -> None:
        at_it = {"throttled": "q", "throttled_by": by, "throttled_who": "by set_limits run 1"}
        found = decided(250, **at_it)
        assert isinstance(found, str) and words in found, found
        unknown = count(POLICY, seen(250, **at_it), now(2, capacity=None))
        assert isinstance(unknown, Hold) and "does not show what one receiver can" in unknown.reason

    def test_a_tuned_limit_is_not_what_a_receiver_can_take(self) -> None:
        """6 receivers that may take 5000 each by the declaration, and 1400 as tuned: five could not
        take what six do, and a seventh is not needed."""
        held = count(POLICY, seen(7800), now(6, capacity=5000.0, allowed=1400.0))
        assert isinstance(held, Hold), held
        assert held.reason.endswith("fewer would be above 0.6 of the 1,400 that each may take")
        fewer = count(POLICY, seen(4000), now(6, capacity=5000.0, allowed=1400.0))
        assert isinstance(fewer, ReceiversTo) and fewer.receivers == 5
        assert count(POLICY, seen(7800), now(6, capacity=5000.0)).receivers == 5


class TestCapacity:
    def made(self, capacity: float | None = None, **fields: Any) -> float | None:
        conf = {
            "spark.streaming.receiver.writeAheadLog.enable": "true",
            **fields.pop("spark_conf", {}),
        }
        policy = ReceiverPolicy(count=ReceiverCount(maximum=4, capacity=capacity))
        fields = {"receivers": 2, "checkpoint_location": "/c", "spark_conf": conf, **fields}
        return capacity_of(dstream(receiver_policy=policy, **fields))

    def test_it_is_what_is_declared_and_no_more_than_a_receiver_may_take(self) -> None:
        assert self.made() is None
        assert self.made(500) == 500
        assert self.made(500, limits=StreamingLimits(max_rate=200)) == 200
        assert self.made(100, limits=StreamingLimits(max_rate=200)) == 100
        assert self.made(None, limits=StreamingLimits(max_rate=200)) == 200

    @pytest.mark.parametrize(("text", "rate"), [("300", 300), ("0", None), ("x", None), ("", None)])
    def test_also_by_sparks_own_setting(self, text: str, rate: float | None) -> None:
        assert self.made(spark_conf={"spark.streaming.receiver.maxRate": text}) == rate

    def test_without_a_policy_it_is_what_spark_is_told(self) -> None:
        assert capacity_of(dstream(receivers=1, limits=StreamingLimits(max_rate=9))) == 9
        assert capacity_of(dstream(receivers=1)) is None
