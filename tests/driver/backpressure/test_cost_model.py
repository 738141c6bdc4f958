"""What is learned of how long batches take."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.backpressure.cost_model import CLOCK, CostModel


def after(batches, interval=1.0):
    """The model after (units, seconds) of each batch."""
    (units, seconds), *others = batches
    model = CostModel.of_first(units, seconds, interval)
    for units, seconds in others:
        model = model.learned(units, seconds)
    return model


class TestTheFirstBatch:
    def test_half_of_a_short_one_is_overhead(self):
        model = CostModel.of_first(100, 0.25, 1.0)
        assert (model.overhead, model.cost) == (0.125, 0.00125)

    def test_but_no_more_than_a_fifth_of_the_interval(self):
        model = CostModel.of_first(100, 5.0, 1.0)
        assert (model.overhead, model.cost) == (0.2, 0.048)

    def test_it_says_more_of_batches_like_it_than_of_others(self):
        model = CostModel.of_first(100, 0.2, 1.0)
        assert model.uncertainty(100) < model.uncertainty(50) < model.uncertainty(1000)
        assert model.uncertainty(100) == pytest.approx(0.1 * 0.2)  # chance only
        assert model.uncertainty(0) == pytest.approx(math.hypot(0.05, 0.02))


class TestLearning:
    def test_two_sizes_tell_overhead_and_cost(self):
        model = after([(100, 0.3), (1000, 0.39), *[(5000, 0.79), (2000, 0.49)] * 15])
        assert model.overhead == pytest.approx(0.29, rel=0.02)
        assert model.cost == pytest.approx(0.0001, rel=0.02)

    def test_what_is_measured_is_known_better(self):
        first = CostModel.of_first(100, 0.2, 1.0)
        then = first.learned(400, 0.35)
        for units in (0, 100, 400, 1000):
            assert then.uncertainty(units) < first.uncertainty(units)

    def test_small_batches_leave_the_cost_alone(self):
        model = after([(1000, 0.3), (4000, 0.9), *[(4000, 0.9), (1000, 0.3)] * 10])
        later = model
        chance = random.Random(1)
        for _ in range(200):
            later = later.learned(20, 0.104 * chance.uniform(0.85, 1.15))
        assert later.cost == pytest.approx(model.cost, rel=0.02)
        assert later.seconds(20) == pytest.approx(0.104, rel=0.1)
        assert later.uncertainty(4000) < 3 * model.uncertainty(4000)

    def test_errors_of_one_sign_are_followed_faster_than_those_of_both(self):
        steady = after([(1000, 0.5), (2000, 0.9), *[(2000, 0.9)] * 20])
        higher = both = steady
        for number in range(6):
            higher = higher.learned(2000, 0.99)
            both = both.learned(2000, 0.99 if number % 2 else 0.81)
        assert higher.seconds(2000) > 0.97
        assert abs(both.seconds(2000) - 0.9) < 0.02

    def test_how_much_batches_vary_is_learned(self):
        calm, wild = random.Random(1), random.Random(1)
        quiet = after([(1000, 0.5 * calm.gauss(1, 0.01)) for _ in range(100)])
        varied = after([(1000, 0.5 * math.exp(wild.gauss(0, 0.2))) for _ in range(100)])
        assert quiet.noise == 0.03
        assert 0.1 < varied.noise < 0.3

    def test_it_is_never_taken_for_more_than_half(self):
        assert after([(1000, 0.1), *[(1000, 9.0), (1000, 0.1)] * 100]).noise <= 0.5


class TestSurprises:
    MODEL = after([(100, 0.2), (1000, 0.3), *[(4000, 0.6), (1000, 0.3)] * 10])

    def test_chance_is_none(self):
        for seconds in (0.46, 0.6, 0.74):
            assert self.MODEL.surprise(4000, seconds) == 0

    def test_what_it_does_not_explain_is_one(self):
        assert self.MODEL.surprise(4000, 0.8) == 1
        assert self.MODEL.surprise(4000, 0.4) == -1

    def test_where_batches_vary_more_it_takes_more(self):
        chance = random.Random(2)
        wild = after([(4000, 0.6 * math.exp(chance.gauss(0, 0.25))) for _ in range(100)])
        assert wild.surprise(4000, 0.9) == 0
        assert wild.surprise(4000, 2.0) == 1

    def test_a_surprising_batch_counts_little(self):
        then = self.MODEL.learned(4000, 6.0)
        assert self.MODEL.seconds(4000) < then.seconds(4000) < 0.65

    def test_a_leap_goes_all_the_way_or_part_of_it(self):
        assert self.MODEL.leapt(4000, 1.2).seconds(4000) == pytest.approx(1.2)
        assert self.MODEL.leapt(4000, 1.2, 0.5).seconds(4000) == pytest.approx(0.9, rel=0.02)
        assert self.MODEL.leapt(4000, 0.3).seconds(4000) == pytest.approx(0.3)

    def test_that_of_a_large_batch_is_of_its_cost(self):
        then = self.MODEL.leapt(4000, 1.0)
        assert then.cost / self.MODEL.cost == pytest.approx(2.0, rel=0.07)
        assert then.overhead == pytest.approx(self.MODEL.overhead, rel=0.15)

    def test_that_of_a_small_one_is_of_the_overhead(self):
        then = self.MODEL.leapt(10, 0.5)
        assert then.cost == pytest.approx(self.MODEL.cost, rel=0.05)
        assert then.overhead == pytest.approx(0.5, rel=0.02)

    def test_after_one_less_is_certain_of_it(self):
        assert self.MODEL.leapt(4000, 1.2).uncertainty(4000) > self.MODEL.uncertainty(4000)


class TestScaling:
    MODEL = after([(100, 0.2), (1000, 0.3), (4000, 0.6)])

    def test_only_the_cost_is_scaled(self):
        then = self.MODEL.scaled(0.5)
        assert (then.overhead, then.cost) == (self.MODEL.overhead, self.MODEL.cost / 2)
        # As certain of twice the units as before of once.
        assert then.uncertainty(8000) == pytest.approx(self.MODEL.uncertainty(4000))

    def test_doubt_comes_on_top(self):
        doubted = self.MODEL.scaled(1.0, 0.1)
        before = self.MODEL.uncertainty(4000)
        by_doubt = 0.1 * self.MODEL.cost * 4000
        assert doubted.uncertainty(4000) == pytest.approx(math.hypot(before, by_doubt))
        assert doubted.uncertainty(0) == self.MODEL.uncertainty(0)


units = st.floats(1e-3, 1e9)
seconds = st.floats(1e-3, 1e6)


@given(
    st.lists(st.tuples(units, seconds, st.sampled_from(["learned", "leapt", "half"])), min_size=1)
)
def test_whatever_happens_it_stays_a_model(batches):
    model = CostModel.of_first(batches[0][0], batches[0][1], 1.0)
    for count, took, how in batches[1:]:
        if how == "learned":
            model = model.learned(count, took)
        else:
            model = model.leapt(count, took, 1.0 if how == "leapt" else 0.5)
        assert 0 <= model.overhead < math.inf and 0 <= model.cost < math.inf
        assert 0 <= model.var_overhead < math.inf and 0 <= model.var_cost < math.inf
        assert CLOCK <= model.seconds(count) < math.inf
        assert 0 <= model.uncertainty(count) < math.inf
        assert 0.03 <= model.noise <= 0.5


class TestOneOfAnotherSize:
    """What was learned of batches of one size alone is put right by one that is larger."""

    def test_overhead_and_cost_are_told_apart(self):
        guessed = after([(100, 1.01)] * 20)
        assert guessed.cost == pytest.approx(0.0081, rel=0.05)
        model = guessed.turned(100, guessed.seconds(100), 300, 1.03)
        assert model.overhead == pytest.approx(1.0, rel=0.01)
        assert model.cost == pytest.approx(0.0001, rel=0.1)
        assert model.seconds(300) == pytest.approx(1.03, rel=0.01)

    def test_chance_in_it_is_told(self):
        model = after([(100, 1.0)] * 20).turned(100, 1.0, 200, 1.0)
        further = after([(100, 1.0)] * 20).turned(100, 1.0, 1000, 1.0)
        assert model.uncertainty(10_000) > 5 * further.uncertainty(10_000) > 0
        assert model.uncertainty(100) < 0.1

    @given(st.floats(0.01, 10), st.floats(0.001, 100), st.floats(1.5, 50))
    def test_neither_is_below_nothing(self, took, larger_took, factor):
        model = after([(100, took)] * 5).turned(100, took, 100 * factor, larger_took)
        assert model.overhead >= 0
        assert model.cost >= 0
        assert model.var_overhead * model.var_cost >= model.covariance**2 * (1 - 1e-9)
