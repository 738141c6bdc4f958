"""What the estimator makes of what happens to streams."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.backpressure.seen import Seen
from dagster_sparkscale.driver.backpressure.work import Work

PER_SECOND = 1e12
"""More than any limit here: the source has as much as one may take."""


class Fed:
    """An estimator, and a stream whose batches are as large as it allows.

    Batches take `overhead` seconds and `cost` for each record, of an interval of one second, and
    none waits, as those of Structured Streaming.
    """

    def __init__(self, overhead: float = 0.1, cost: float = 0.0002, **declared: float) -> None:
        self.overhead, self.cost = overhead, cost
        self.work = Work(**declared)
        self.at = 0.0

    @property
    def fitting(self) -> float:
        """The rate whose batches take 0.9 of the interval."""
        return (0.9 - self.overhead) / self.cost

    def batch(self, arrivals: float = PER_SECOND, times: float = 1.0, **more: object) -> float:
        """The rate after a batch that took so many times longer than it should."""
        records = int(min(self.work.rate, arrivals))
        took = times * (self.overhead + self.cost * records)
        self.at += max(1.0, took)
        self.work.completed(
            replace(
                Seen(self.at, records, max(1, round(1000 * took)), 1000, limit=self.work.rate),
                **more,
            )
        )
        return self.work.rate

    def batches(self, number: int, **more: object) -> list[float]:
        return [self.batch(**more) for _ in range(number)]


@pytest.fixture
def steady() -> Fed:
    """A stream that has gone on for a while, at the rate that fits."""
    fed = Fed()
    fed.batches(30)
    assert fed.work.rate == pytest.approx(fed.fitting, rel=0.03)
    return fed


class TestTheStart:
    def test_there_is_a_limit_before_the_first_batch(self):
        assert Work().rate == 100.0
        assert Work(min_rate=7.0).rate == 7.0
        assert Work(initial_rate=2500.0).rate == 2500.0

    @pytest.mark.parametrize("overhead", [0.02, 0.1, 0.3, 0.5])
    @pytest.mark.parametrize("cost", [0.001, 0.0001, 0.00001])
    def test_it_grows_to_what_fits_within_a_few_batches(self, overhead, cost):
        fed = Fed(overhead, cost)
        times_more = fed.fitting / fed.work.rate
        rates = fed.batches(6 + 2 * math.ceil(math.log(times_more, 10)))
        assert rates[-1] >= 0.9 * fed.fitting
        assert overhead + cost * max(rates) <= 1.05

    def test_a_first_rate_that_is_too_high_is_corrected_by_the_first_batch(self):
        fed = Fed(initial_rate=20_000.0)
        assert fed.batch() < 1.1 * fed.fitting
        assert fed.batches(3)[-1] == pytest.approx(fed.fitting, rel=0.1)

    def test_the_first_batch_of_a_jvm_teaches_nothing(self):
        fed = Fed()
        assert fed.batch(times=60.0, cold=True) == 100.0
        warm = Fed()
        assert fed.batch() == warm.batch()

    def test_an_empty_batch_teaches_nothing(self):
        fed = Fed()
        assert fed.batches(5, arrivals=0) == [100.0] * 5
        assert fed.batch() == Fed().batch()

    def test_nor_does_one_that_took_no_time(self):
        work = Work()
        assert work.completed(Seen(1.0, 100, 0, 1000)) is None
        assert work.rate == 100.0


class TestTheRateThatFits:
    def test_it_stays_where_it_is(self, steady):
        rates = steady.batches(100)
        assert max(rates) - min(rates) <= 0.011 * steady.fitting

    def test_chance_moves_it_little(self, steady):
        chance = random.Random(1)
        rates = [steady.batch(times=math.exp(chance.gauss(0, 0.1))) for _ in range(300)]
        assert min(rates) > 0.85 * steady.fitting
        assert max(rates) < 1.12 * steady.fitting

    def test_a_batch_takes_the_share_that_is_declared(self):
        fed = Fed(target_ratio=0.5)
        assert fed.batches(30)[-1] == pytest.approx((0.5 - 0.1) / 0.0002, rel=0.03)

    def test_the_most_that_is_declared_is_not_exceeded(self):
        assert max(Fed(max_rate=2000.0).batches(30)) == 2000.0

    def test_the_least_is_given_where_even_that_does_not_fit(self):
        fed = Fed(min_rate=6000.0)
        assert set(fed.batches(30, scheduling_ms=500)) == {6000.0}

    def test_the_least_is_given_where_a_batch_takes_too_long_without_any_record(self):
        fed = Fed(overhead=2.0, initial_rate=500.0)
        assert fed.batches(30, scheduling_ms=500)[-1] == 100.0

    def test_slow_changes_are_followed(self, steady):
        for _ in range(60):
            steady.cost *= 1.02
            steady.batch()
        assert steady.work.rate == pytest.approx(steady.fitting, rel=0.1)
        for _ in range(60):
            steady.cost /= 1.02
            steady.batch()
        assert steady.work.rate == pytest.approx(steady.fitting, rel=0.1)


class TestNothingFits:
    """Batches take longer than their interval whatever is in them."""

    def test_what_comes_in_is_read_all_the_same(self):
        fed = Fed(overhead=0.5, cost=0.00001)
        fed.batches(30, arrivals=20_000)
        fed.overhead = 1.2
        fed.batches(20)
        took = fed.overhead + fed.cost * fed.work.rate
        assert fed.work.rate / took > 8_000, "and not min_rate, for which batches are as long"
        assert took < 1.6

    def test_batches_that_wait_for_each_other_have_to_fit(self):
        fed = Fed(overhead=0.5, cost=0.00001)
        fed.batches(30, arrivals=20_000, scheduling_ms=0)
        fed.overhead = 1.2
        assert fed.batches(20, scheduling_ms=0)[-1] == 100.0


class TestTheLowestRate:
    """Batches of one size do not tell whether it is their records that take so long."""

    @pytest.mark.parametrize("noise", [0.0, 0.1])
    @pytest.mark.parametrize("overhead", [0.92, 0.95, 1.2, 3.0])
    def test_it_is_left_where_the_overhead_takes_the_time_from_the_start(self, overhead, noise):
        chance = random.Random(1)
        fed = Fed(overhead, cost=0.00001)
        for _ in range(150):
            fed.batch(arrivals=20_000, times=chance.uniform(1 - noise, 1 + noise))
        assert fed.work.rate > 2_000
        assert fed.overhead + fed.cost * fed.work.rate < 1.5 * overhead

    def test_where_the_records_do_it_is_seldom_left_and_at_once_come_back_to(self):
        fed = Fed(min_rate=6000.0)
        rates = fed.batches(700)
        tried = [number for number, rate in enumerate(rates, 1) if rate > 6000.0]
        assert tried == [10, 20, 40, 80, 160, 320, 480, 640]
        assert {rates[number - 1] for number in tried} == {12_000.0}

    def test_nothing_is_tried_above_what_is_declared(self):
        fed = Fed(min_rate=6000.0, max_rate=8000.0)
        assert set(fed.batches(100)) == {6000.0}

    def test_what_is_not_read_at_the_lowest_rate_is_not_tried_at_another(self):
        fed = Fed(1.2, cost=0.001)
        assert set(fed.batches(100, arrivals=50)) == {100.0}

    def test_a_source_that_takes_no_more_ends_the_try(self):
        fed = Fed(1.2, cost=0.001)
        assert fed.batches(10)[-1] == 200.0
        assert fed.batches(5, arrivals=100) == [100.0] * 5

    def test_as_does_one_that_heeds_no_other_limit(self):
        fed = Fed(1.2, cost=0.001)
        fed.batches(10)
        assert [fed.batch(arrivals=100, limit=100.0) for _ in range(4)] == [
            200.0,
            200.0,
            *[100.0] * 2,
        ]

    def test_a_batch_that_was_planned_before_does_not(self):
        fed = Fed(1.2, cost=0.00001)
        fed.batches(10)
        assert fed.batch(arrivals=100, limit=100.0) == 200.0
        assert fed.batch() > 200.0

    @pytest.mark.parametrize("overhead", [0.7, 0.85])
    def test_a_larger_batch_that_is_slow_by_chance_takes_nothing_from_the_rate(self, overhead):
        fed = Fed(overhead, cost=0.00002)
        before = min(fed.batches(40)[-5:])
        tried = next(number for number in range(200) if fed.batch() > 1.5 * before)
        assert tried > 5
        fed.batch(times=3.0)
        assert min(fed.batches(10)) > 0.9 * before

    def test_while_batches_wait_none_is_tried(self):
        fed = Fed(1.2, cost=0.00001)
        assert set(fed.batches(100, scheduling_ms=200)) == {100.0}


class TestSmallBatches:
    def test_they_take_nothing_from_the_rate(self, steady):
        before, chance = steady.work.rate, random.Random(1)
        rates = [
            steady.batch(arrivals=chance.choice([1, 20, 300]), times=chance.uniform(0.8, 1.2))
            for _ in range(300)
        ]
        assert min(rates) > 0.95 * before

    def test_what_they_take_longer_is_overhead(self, steady):
        """Twice the time of a batch of 50 records is a tenth of a second, and no more."""
        steady.overhead = 0.2
        rates = steady.batches(30, arrivals=50)
        assert rates[-1] == pytest.approx(steady.fitting, rel=0.03)

    def test_the_rate_is_back_as_soon_as_they_are_fast_again(self, steady):
        before = steady.work.rate
        assert steady.batches(3, arrivals=50, times=20.0)[-1] < 0.6 * before
        assert steady.batches(4, arrivals=50)[-1] > 0.9 * before

    def test_they_do_not_raise_the_limit_beyond_what_they_show(self):
        fed = Fed()
        assert max(fed.batches(50, arrivals=50)) <= 10 * 50


class TestTheCostOfRecords:
    @pytest.mark.parametrize("factor", [2.0, 3.0])
    def test_as_it_rises_the_rate_falls_within_two_batches(self, steady, factor):
        steady.cost *= factor
        first, second = steady.batches(2)
        assert steady.fitting < first < 0.85 * factor * steady.fitting
        assert second == pytest.approx(steady.fitting, rel=0.1)

    @pytest.mark.parametrize("factor", [2.0, 3.0])
    def test_as_it_falls_the_rate_rises_within_two_batches(self, steady, factor):
        steady.cost /= factor
        rates = steady.batches(2)
        assert rates[-1] > 0.85 * steady.fitting
        assert max(rates) < 1.05 * steady.fitting

    def test_one_slow_batch_is_forgotten_with_the_next(self, steady):
        before = steady.work.rate
        after = steady.batch(times=3.0)
        assert 0.4 * before < after < before
        assert steady.batch() > 0.93 * before

    def test_two_slow_ones_with_others_between_are_no_change(self, steady):
        before = steady.work.rate
        steady.batch(times=3.0)
        steady.batch()
        steady.batch(times=3.0)
        assert steady.batch() > 0.9 * before

    def test_two_fast_ones_with_a_slow_one_between_are(self, steady):
        steady.cost /= 3
        steady.batch()
        steady.batch(times=2.5)
        assert steady.batch() > 0.75 * steady.fitting

    def test_one_slow_and_one_fast_batch_are_no_change(self, steady):
        before = steady.work.rate
        steady.batch(times=3.0)
        steady.batch(times=0.3)
        assert steady.batches(2)[-1] == pytest.approx(before, rel=0.1)

    def test_records_that_are_dear_every_other_time_fit_in_the_mean(self, steady):
        """Where none waits, a batch that takes too long is not made up for by one that does not."""
        cheap, dear = steady.cost, 2 * steady.cost
        took = []
        for number in range(200):
            steady.cost = dear if number % 2 else cheap
            took.append(steady.overhead + steady.cost * steady.work.rate)
            steady.batch()
        assert 0.6 < sum(took[100:]) / 100 < 1.0


class TestWorkThatTheSourceTells:
    def in_bytes(self, fed: Fed, size: float, **more: object) -> float:
        """A batch whose records have `size` bytes, and take as long as these."""
        fed.cost = 2e-7 * size
        return fed.batch(work=int(fed.work.rate) * size, **more)

    def test_larger_records_lower_the_rate_at_once(self):
        fed = Fed()
        for _ in range(30):
            self.in_bytes(fed, 1000.0)
        assert fed.work.rate == pytest.approx(fed.fitting, rel=0.03)
        first = self.in_bytes(fed, 2000.0)
        assert first == pytest.approx(fed.fitting / 0.85, rel=0.03)  # a weight of 0.7
        assert self.in_bytes(fed, 2000.0) == pytest.approx(fed.fitting, rel=0.07)

    def test_it_may_begin_to_be_told_and_cease(self, steady):
        before = steady.work.rate
        for told in (True, False, True):
            for _ in range(5):
                after = self.in_bytes(steady, 1000.0) if told else steady.batch()
                assert after == pytest.approx(before, rel=0.02)

    @pytest.mark.parametrize("work", [1e-300, 1e300])
    def test_work_that_can_not_be_is_none_told(self, steady, work):
        before = steady.work.rate
        assert steady.batch(work=work) == pytest.approx(before, rel=0.02)
        assert self.in_bytes(steady, 1000.0) == pytest.approx(before, rel=0.02)

    def test_no_work_at_all_is_none_told(self, steady):
        before = steady.work.rate
        assert steady.batch(work=0.0) == pytest.approx(before, rel=0.02)


class TestExecutors:
    @pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2), (3, 4)])
    def test_the_rate_goes_with_their_number_at_first(self, before, after):
        fed = Fed()
        fed.batches(30, executors=before)
        rate = fed.work.rate
        fed.cost *= before / after
        now = fed.batch(arrivals=rate, executors=after)
        assert now == pytest.approx(fed.fitting, rel=0.1)
        assert now / rate == pytest.approx(after / before, rel=0.1)

    def test_before_any_batch_with_them_shows_it(self):
        fed = Fed()
        fed.batches(30, executors=2)
        rate = fed.work.rate
        assert fed.batch(arrivals=0, executors=4) == pytest.approx(2 * rate)
        assert fed.batch(arrivals=0, executors=1) == pytest.approx(rate / 2)

    def test_then_by_what_they_bring(self):
        """Twice the executors that bring a tenth: nothing more can be done at a time."""
        fed = Fed()
        fed.batches(30, executors=2)
        fed.cost /= 1.1
        assert fed.batches(6, executors=4)[-1] == pytest.approx(fed.fitting, rel=0.1)

    @pytest.mark.parametrize("unknown", [None, 0])
    def test_a_number_that_is_not_known_changes_nothing(self, unknown):
        fed = Fed()
        fed.batches(30, executors=2)
        before = fed.work.rate
        assert fed.batch(executors=unknown) == pytest.approx(before, rel=0.02)
        assert fed.batch(executors=2) == pytest.approx(before, rel=0.02)

    def test_bounds_hold(self):
        fed = Fed(max_rate=5000.0, min_rate=3000.0)
        fed.batches(10, executors=2)
        fed.cost /= 10
        assert fed.batch(executors=20) == 5000.0
        fed.cost *= 20
        assert fed.batch(executors=1) == 3000.0

    def test_before_the_first_batch_that_teaches_they_change_nothing(self):
        fed = Fed()
        fed.batch(cold=True, executors=1)
        assert fed.batch(cold=True, executors=8) == 100.0


def queued(waits: list[float], rate: float = 4000.0, took: float = 0.9) -> Iterator[Seen]:
    """Batches of a DStream, one a second, that had to wait."""
    for number, wait in enumerate(waits, 1):
        ended = 100.0 + number + wait + took
        yield Seen(ended, int(rate), int(1000 * took), 1000, int(1000 * wait), limit=rate)


@pytest.fixture
def queueing() -> Work:
    """That of a DStream that has gone on for a while, 4000 records of 0.9 s to a batch."""
    work = Work()
    for number in range(60):
        records = int(work.rate)
        took = 0.1 + 0.0002 * records
        work.completed(Seen(number + 1 + took, records, int(1000 * took), 1000, 0, limit=records))
    assert work.rate == pytest.approx(4000, rel=0.03)
    return work


class TestBatchesThatWait:
    def test_the_rate_is_lower_until_they_do_not(self, queueing):
        before = queueing.rate
        rates = []
        for batch in queued([5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.0, 0.0]):
            queueing.completed(batch)
            rates.append(queueing.rate)
        assert rates[0] == 100.0
        assert rates[-1] == pytest.approx(before, rel=0.02)

    def test_a_short_wait_is_made_up_for_by_what_is_kept_free(self, queueing):
        before = queueing.rate
        for batch in queued([0.1] * 10):
            queueing.completed(batch)
        assert queueing.rate == pytest.approx(before, rel=0.02)

    def test_those_that_the_limit_has_formed_meanwhile_count(self, queueing):
        """The one that waited for a second is followed by two like it, and by a part of a third."""
        [batch] = queued([1.0])
        queueing.completed(batch)
        alone = queueing.rate
        [later] = queued([2.5])
        queueing.completed(later)
        assert queueing.rate < alone < 4000

    def test_small_batches_leave_no_room_to_fill(self, queueing):
        """What was formed behind a small batch was as small, as far as is known."""
        full, part = (replace(next(queued([1.5])), records=n) for n in (4000, 400))
        other = Work()
        for number in range(60):
            took = 0.1 + 0.0002 * int(other.rate)
            batch = Seen(number + 1 + took, int(other.rate), int(1000 * took), 1000, 0)
            other.completed(replace(batch, limit=float(batch.records)))
        queueing.completed(full)
        other.completed(replace(part, processing_ms=180))
        assert other.rate > queueing.rate

    def test_an_empty_batch_that_did_not_wait_says_that_none_does(self, queueing):
        before = queueing.rate
        queueing.completed(next(queued([5.0])))
        assert queueing.rate == 100.0
        queueing.completed(Seen(200.0, 0, 50, 1000, 0))
        assert queueing.rate == pytest.approx(before, rel=0.02)

    def test_where_none_can_wait_it_does_not_matter(self, queueing):
        before = queueing.rate
        for batch in queued([5.0] * 3):
            queueing.completed(replace(batch, scheduling_ms=None))
        assert queueing.rate == pytest.approx(before, rel=0.02)

    def test_a_queue_of_hours_is_no_trouble(self, queueing):
        found = queueing.completed(next(queued([50_000.0])))
        assert found is not None and found.rate == 100.0

    def test_a_queue_that_was_there_from_the_start(self):
        work = Work()
        rates = []
        for batch in queued([30.0, 20.0, 10.0, 3.0, 0.0, 0.0], rate=100.0, took=0.12):
            work.completed(batch)
            rates.append(work.rate)
        assert rates[0] == 100.0 < rates[-1]


class TestFailedBatches:
    def test_they_teach_nothing(self, steady):
        before = steady.work.rate
        assert steady.work.completed(Seen(99.0, 1, 99_000, 1000, failed=True)) is None
        assert steady.work.rate == before

    def test_it_is_as_if_they_had_not_been(self):
        failing, other = Fed(), Fed()
        for number in range(20):
            if number % 3 == 0:
                failing.work.completed(Seen(1.0, 5, 60_000, 1000, 9000, executors=9, failed=True))
            assert failing.batch(executors=2) == other.batch(executors=2)


class TestReasons:
    def test_say_what_it_goes_by(self):
        work = Work()
        found = work.completed(Seen(1.0, 100, 200, 1000))
        assert found is not None
        assert found.rate == work.rate
        assert found.reason == (
            "a batch takes 0.10 s, and 1 s for each 1,000 records; 90% of 1 s: 633 records/s"
        )

    def test_say_where_batches_wait(self, queueing):
        found = queueing.completed(next(queued([2.0])))
        assert found is not None
        assert found.reason.startswith("a batch takes 0.")
        assert "records/s; fewer, as batches wait for 1.7 s" in found.reason

    def test_say_that_a_larger_batch_is_tried(self):
        fed = Fed(1.2, cost=0.001)
        fed.batches(9)
        found = fed.work.completed(Seen(fed.at + 2.0, 100, 1300, 1000, limit=100.0))
        assert found is not None
        assert found.rate == 200.0
        assert "100 records/s; 200 are tried once" in found.reason


def test_bounds_of_the_target():
    for wrong in (0.0, -1.0, 1.01, math.nan):
        with pytest.raises(
            ValueError, match=f"target_ratio = {wrong}: must be above 0 and at most 1"
        ):
            Work(target_ratio=wrong)
    Work(target_ratio=1.0)


batches = st.builds(
    Seen,
    completed_at=st.floats(0, 1e10),
    records=st.integers(0, 3) | st.integers(0, 10**6) | st.integers(0, 2**62),
    processing_ms=st.integers(0, 5000) | st.integers(0, 2**53),
    interval_ms=st.sampled_from([1, 1000, 60_000]),
    scheduling_ms=st.none() | st.integers(0, 10_000) | st.integers(0, 2**53),
    executors=st.none() | st.integers(0, 1000),
    limit=st.none() | st.floats(0, 1e12),
    work=st.none() | st.floats(0, 1e15),
    failed=st.booleans(),
    cold=st.booleans(),
)


@given(st.lists(batches, max_size=30), st.floats(1e-3, 1e4), st.none() | st.floats(1.0, 1e6))
def test_whatever_happens_the_rate_is_one(history, least, times):
    work = Work(min_rate=least, max_rate=None if times is None else least * times)
    for batch in history:
        found = work.completed(batch)
        assert least <= work.rate < math.inf
        assert times is None or work.rate <= least * times
        if found is not None:
            assert found.rate == work.rate


@given(
    st.floats(0.5, 120.0),
    st.floats(0.01, 0.5),
    st.floats(150.0, 1e7),
    st.floats(0.5, 1.0),
)
def test_it_finds_what_fits_whatever_the_stream_is_like(interval, overhead, fitting, target):
    """Of any interval, overhead and cost, without chance. While it grows a batch may take up to a
    third too long: where what was taken for overhead after the first one is cost."""
    overhead = overhead * target * interval
    cost = (target * interval - overhead) / (fitting * interval)
    work = Work(target_ratio=target)
    largest = 0.0
    for number in range(25):
        records = int(work.rate * interval)
        took = overhead + cost * records
        largest = max(largest, took)
        at = (number + 1) * interval + took
        work.completed(Seen(at, records, round(1000 * took), round(1000 * interval)))
    assert work.rate == pytest.approx(fitting, rel=0.05)
    assert largest <= 4 / 3 * interval


def run(takes: Callable[[int], float], number: int) -> list[float]:
    work = Work()
    rates = []
    for count in range(number):
        records = int(work.rate)
        took = takes(records)
        work.completed(Seen(count + took, records, round(1000 * took), 1000))
        rates.append(work.rate)
    return rates


@pytest.mark.parametrize(
    "takes",
    [
        lambda n: 0.05 + 1e-4 * n * math.log2(2 + n) / 10,  # sorts
        lambda n: 0.3 * math.ceil(n / 4000) + 2e-5 * n,  # waves of tasks
        lambda n: 0.05 + 0.004 * n**0.6,  # each record is cheaper among many
    ],
)
def test_streams_that_are_not_quite_so_find_a_rate_that_fits_too(takes):
    rates = run(takes, 60)
    took = [takes(int(rate)) for rate in rates[30:]]
    assert 0.8 < sum(took) / len(took) < 0.95
    assert max(took) < 1.1


def history(interval: float = 1.0, size: float | None = None, told: int = 0) -> Iterator[Seen]:
    """Batches of a DStream whose records become dearer, then cheaper, with slow ones among them.

    Args:
        interval: in seconds; batches, waits and overhead are in proportion to it.
        size: what a record is in work, told from batch `told` on.
    """
    chance, waited = random.Random(3), 0.0
    for number in range(120):
        records = [200, 1500, 3000, 3600][min(number // 3, 3)] - number % 7 * 100
        cost = 0.0002 * (1 + (40 <= number < 70)) * chance.uniform(0.9, 1.1)
        took = 0.1 + cost * records * (2.5 if number in (20, 85) else 1)
        yield Seen(
            1000.0 + (number + waited + took) * interval,
            round(records * interval),
            round(1000 * took * interval),
            round(1000 * interval),
            scheduling_ms=round(1000 * waited * interval),
            limit=4000.0 * interval,
            executors=2 + (number >= 100),
            work=None if size is None or number < told else round(records * interval) * size,
        )
        waited = max(0.0, waited + took - 1)


def rates(batches: Iterator[Seen]) -> list[float]:
    work = Work()
    found = []
    for batch in batches:
        work.completed(batch)
        found.append(work.rate)
    return found


@pytest.mark.parametrize("interval", [0.5, 4.0, 60.0])
def test_streams_of_other_intervals_get_the_same_rates(interval):
    """But for what the clock is taken to be off by, which is of each measured time."""
    assert rates(history(interval)) == pytest.approx(rates(history()), rel=0.1)


@pytest.mark.parametrize("told", [0, 1, 30])
def test_work_that_is_in_proportion_to_records_changes_nothing(told):
    for size in (0.01, 512.0):
        assert rates(history(size=size, told=told)) == pytest.approx(rates(history()), rel=1e-6)


def test_the_same_batches_bring_the_same_rates():
    """What decides is many numbers. Who changes one has to look at the benchmark `backpressure`."""
    found = rates(history())
    assert [round(found[number], 1) for number in (0, 2, 5, 9, 20, 21, 41, 42, 43, 60)] == [
        *(1865.1, 1865.1, 4023.2, 4050.0, 1730.8, 3957.5, 1544.8, 1402.7, 1467.5, 100.0)
    ]
    assert [round(found[number], 1) for number in (70, 71, 72, 85, 86, 99, 100, 110, 119)] == [
        *(2168.2, 855.8, 1173.3, 100.0, 1251.3, 1740.0, 2125.3, 2248.5, 2657.7)
    ]
