"""Batches that wait for each other, as those of a DStream."""

from dataclasses import replace

import pytest

from dagster_sparkscale.driver.backpressure.measured import MeasuredBatch
from dagster_sparkscale.driver.backpressure.work import Work
from tests.driver.backpressure.fed import queued


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
            batch = MeasuredBatch(number + 1 + took, int(other.rate), int(1000 * took), 1000, 0)
            other.completed(replace(batch, limit=float(batch.records)))
        queueing.completed(full)
        other.completed(replace(part, processing_ms=180))
        assert other.rate > queueing.rate

    def test_an_empty_batch_that_did_not_wait_says_that_none_does(self, queueing):
        before = queueing.rate
        queueing.completed(next(queued([5.0])))
        assert queueing.rate == 100.0
        queueing.completed(MeasuredBatch(200.0, 0, 50, 1000, 0))
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
