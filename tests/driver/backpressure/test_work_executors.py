"""Executors that come and go."""

import pytest

from tests.driver.backpressure.fed import Fed


class TestExecutors:
    @pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2), (3, 4)])
    def test_the_rate_goes_with_their_number_at_first(self, before, after):
        fed = Fed()
        fed.batches(30, cores=before)
        rate = fed.work.rate
        fed.cost *= before / after
        now = fed.batch(arrivals=rate, cores=after)
        assert now == pytest.approx(fed.fitting, rel=0.1)
        assert now / rate == pytest.approx(after / before, rel=0.1)

    def test_before_any_batch_with_them_shows_it(self):
        fed = Fed()
        fed.batches(30, cores=2)
        rate = fed.work.rate
        assert fed.batch(arrivals=0, cores=4) == pytest.approx(2 * rate)
        assert fed.batch(arrivals=0, cores=1) == pytest.approx(rate / 2)

    def test_then_by_what_they_bring(self):
        """Twice the executors that bring a tenth: nothing more can be done at a time."""
        fed = Fed()
        fed.batches(30, cores=2)
        fed.cost /= 1.1
        assert fed.batches(6, cores=4)[-1] == pytest.approx(fed.fitting, rel=0.1)

    @pytest.mark.parametrize("unknown", [None, 0])
    def test_a_number_that_is_not_known_changes_nothing(self, unknown):
        fed = Fed()
        fed.batches(30, cores=2)
        before = fed.work.rate
        assert fed.batch(cores=unknown) == pytest.approx(before, rel=0.02)
        assert fed.batch(cores=2) == pytest.approx(before, rel=0.02)

    def test_bounds_hold(self):
        fed = Fed(max_rate=5000.0, min_rate=3000.0)
        fed.batches(10, cores=2)
        fed.cost /= 10
        assert fed.batch(cores=20) == 5000.0
        fed.cost *= 20
        assert fed.batch(cores=1) == 3000.0

    def test_before_the_first_batch_that_teaches_they_change_nothing(self):
        fed = Fed()
        fed.batch(cold=True, cores=1)
        assert fed.batch(cold=True, cores=8) == 100.0
