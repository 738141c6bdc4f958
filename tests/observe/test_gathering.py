"""How full the fullest batch was, and how late the latest."""

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.evaluate import REAL_TIME
from dagster_sparkscale.observe.gathering import fullest, gathered, latest
from dagster_sparkscale.observe.status import Query
from tests.fakes import QUERY, batch
from tests.observe.evaluating import INTERVAL, seen


def dstream(seconds, ago, waited_ms=0, **fields):
    return batch(seconds, ago=ago, scheduling_ms=waited_ms, **fields)


def seen_dstream(*batches):
    query = Query(QUERY, True, interval_ms=int(INTERVAL * 1000), pending_batches=0)
    return seen(queries=(query,), batches=batches)


def seen_paced(*batches):
    query = Query(QUERY, True, interval_ms=int(INTERVAL * 1000), trigger="processing time")
    return seen(queries=(query,), batches=batches)


class TestDStreams:
    def test_each_batch_has_the_records_of_one_interval(self):
        evaluation = seen_dstream(dstream(4, 15, records=300), dstream(4, 5, records=50))
        assert evaluation.peak_rate == 300 / INTERVAL

    def test_a_batch_that_waited_is_as_much_later(self):
        evaluation = seen_dstream(dstream(4, 15, waited_ms=9000), dstream(5, 5))
        assert evaluation.delay == INTERVAL + 9 + 4

    def test_one_that_keeps_up_is_never_late(self):
        assert seen_dstream(dstream(INTERVAL, 5)).delay == 2 * INTERVAL


class TestStructuredStreaming:
    def test_a_batch_behind_a_long_one_gathered_for_as_long(self):
        long = batch(25, ago=20, records=100)
        # How much longer than an interval the one before took is its time to gather.
        next_one = batch(8, ago=12, records=250, scheduling_ms=15_000)
        evaluation = seen_paced(batch(2, ago=50), long, next_one)
        # It began at 20 s ago, the one before at 45 s ago.
        assert evaluation.peak_rate == max(100 / INTERVAL, 250 / 25)
        assert evaluation.delay == max(INTERVAL + 25, 25 + 8)

    def test_the_batch_before_the_window_tells_when_the_first_began_to_gather(self):
        before, first = batch(30, ago=70, records=1), batch(40, ago=20, records=400)
        evaluation = seen_paced(before, first)
        assert evaluation.completed == 1
        assert evaluation.peak_rate == 400 / 40
        assert evaluation.delay == 40 + 40

    def test_what_came_first_is_not_known_of_the_only_batch(self):
        evaluation = seen_paced(batch(4, records=300))
        assert evaluation.peak_rate is None
        assert evaluation.delay == INTERVAL + 4

    def test_a_trigger_without_data_ends_the_gathering_and_is_no_batch(self):
        idle = batch(0, ago=25, records=None, triggers=3)
        evaluation = seen_paced(batch(1, ago=55), idle, batch(2, ago=13, records=200))
        assert evaluation.peak_rate == 200 / INTERVAL
        assert evaluation.delay == INTERVAL + 2

    def test_a_batch_that_failed_is_done_by_the_one_in_its_place(self):
        failed = batch(5, ago=35, records=900, failed=True)
        # It may have been planned before: then the next one has all that came since that plan.
        again, rest = batch(2, ago=18, records=900), batch(9, ago=9, records=9000)
        evaluation = seen_paced(batch(1, ago=55), failed, again, rest)
        assert evaluation.peak_rate is None
        assert evaluation.delay == 36 + 2
        evaluation = seen_paced(batch(1, ago=55), failed, again, rest, batch(3, ago=5, records=70))
        assert evaluation.peak_rate == 70 / INTERVAL

    def test_the_second_batch_of_a_driver_may_have_all_that_came_while_there_was_none(self):
        first = batch(8, ago=32, records=100, cold=True)
        second, third = batch(6, ago=14, records=9000), batch(2, ago=3, records=130)
        assert seen_paced(first, second).peak_rate is None
        evaluation = seen_paced(first, second, third)
        assert evaluation.peak_rate == 130 / 15
        assert evaluation.delay == 20 + 6


class TestAsFastAsPossible:
    """Batches that begin as soon as one can, where 10 s are the latency that is wanted."""

    def test_batches_are_as_full_as_what_came_since_the_one_before(self):
        batches = [batch(2, ago=55 - 2 * number, records=2000) for number in range(25)]
        evaluation = seen(batches=tuple(batches))
        assert evaluation.peak_rate == 1000
        assert evaluation.delay == 2 + 2

    def test_a_rate_is_that_of_an_interval_at_least(self):
        # Of what comes once a second, each other batch has all.
        batches = [
            batch(0.5, ago=31 - number / 2, records=number % 2 * 100) for number in range(50)
        ]
        evaluation = seen(batches=tuple(batches))
        assert evaluation.peak_rate is not None and 90 < evaluation.peak_rate <= 100

    def test_in_less_than_an_interval_it_is_not_known(self):
        assert seen(batches=(batch(2, ago=8), batch(2, ago=6))).peak_rate is None


def test_queries_are_full_together_and_the_latest_tells_the_delay():
    queries = (
        Query("a", True, interval_ms=10_000, pending_batches=0),
        Query("b", True, interval_ms=2_000, pending_batches=0),
    )
    batches = (dstream(4, 5, query="a", records=100), dstream(3, 5, query="b", records=50))
    evaluation = seen(queries=queries, batches=batches)
    assert evaluation.peak_rate == 10 + 25
    assert evaluation.delay == 14


def test_batches_that_last_as_long_as_they_are_told_to_are_neither():
    query = Query(QUERY, True, trigger=REAL_TIME)
    evaluation = seen(queries=(query,), batches=(batch(300, ago=30), batch(10, ago=5)))
    assert (evaluation.peak_rate, evaluation.delay) == (None, None)


def test_without_a_batch_nothing_is_known():
    assert (seen().peak_rate, seen().delay) == (None, None)
    assert fullest((), INTERVAL) is None
    assert latest((), INTERVAL, queues=True, paced=True) is None


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(0.001, 40), st.none() | st.integers(0, 1000)),
        min_size=1,
        max_size=8,
    )
)
def test_no_batch_gathers_in_less_than_an_interval_or_is_done_at_once(drawn):
    drawn.sort(key=lambda each: -each[0])
    batches = [batch(took, ago=ago, records=n) for ago, took, n in drawn]
    peak = fullest(gathered(batches[1:], batches[0], INTERVAL, False, True), INTERVAL)
    delay = latest(gathered(batches, None, INTERVAL, True, True), INTERVAL, True, True)
    counts = [each.records for each in batches[1:] if each.records is not None]
    assert (peak is None) == (not counts)
    assert peak is None or 0 <= peak <= max(counts) / INTERVAL
    counted = [each for each in batches if each.processing_ms or each.records]
    slowest = max((each.processing_ms / 1000 for each in counted), default=None)
    assert (delay is None) == (slowest is None)
    assert delay is None or delay >= INTERVAL + slowest - 1e-6
