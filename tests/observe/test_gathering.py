"""How full the fullest batch was, and how late the latest."""

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.evaluate import REAL_TIME
from dagster_sparkscale.observe.gathering import fullest, latest
from dagster_sparkscale.observe.status import Query
from tests.fakes import QUERY, batch
from tests.observe.evaluating import INTERVAL, seen


def dstream(seconds, ago, waited_ms=0, **fields):
    return batch(seconds, ago=ago, scheduling_ms=waited_ms, **fields)


def seen_dstream(*batches):
    query = Query(QUERY, True, interval_ms=int(INTERVAL * 1000), pending_batches=0)
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
        evaluation = seen(batches=(batch(2, ago=50), long, next_one))
        # It began at 20 s ago, the one before at 45 s ago.
        assert evaluation.peak_rate == max(100 / INTERVAL, 250 / 25)
        assert evaluation.delay == max(INTERVAL + 25, 25 + 8)

    def test_the_batch_before_the_window_tells_when_the_first_began_to_gather(self):
        before, first = batch(30, ago=70, records=1), batch(40, ago=20, records=400)
        evaluation = seen(batches=(before, first))
        assert evaluation.completed == 1
        assert evaluation.peak_rate == 400 / 40
        assert evaluation.delay == 40 + 40

    def test_what_came_first_is_not_known_of_the_only_batch(self):
        evaluation = seen(batches=(batch(4, records=300),))
        assert evaluation.peak_rate is None
        assert evaluation.delay == INTERVAL + 4

    def test_a_trigger_without_data_ends_the_gathering_and_is_no_batch(self):
        idle = batch(0, ago=25, records=None, triggers=3)
        evaluation = seen(batches=(batch(1, ago=55), idle, batch(2, ago=13, records=200)))
        assert evaluation.peak_rate == 200 / INTERVAL
        assert evaluation.delay == INTERVAL + 2

    def test_a_batch_that_failed_is_none_but_others_began_after_it(self):
        failed = batch(5, ago=25, records=900, failed=True)
        evaluation = seen(batches=(batch(1, ago=55), failed, batch(2, ago=8, records=200)))
        assert evaluation.peak_rate == 200 / 20
        assert evaluation.delay == 20 + 2


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
    assert fullest((), None, INTERVAL, False) is None
    assert latest((), None, INTERVAL, True) is None


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
    peak, delay = (
        fullest(batches[1:], batches[0], INTERVAL, False),
        latest(batches, None, INTERVAL, True),
    )
    counts = [each.records for each in batches[1:] if each.records is not None]
    assert (peak is None) == (not counts)
    assert peak is None or 0 <= peak <= max(counts) / INTERVAL
    counted = [each for each in batches if each.processing_ms or each.records]
    slowest = max((each.processing_ms / 1000 for each in counted), default=None)
    assert (delay is None) == (slowest is None)
    assert delay is None or delay >= INTERVAL + slowest - 1e-6
