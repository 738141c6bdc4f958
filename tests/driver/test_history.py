from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.batches.history import LIMIT, WORKED_MS, History
from dagster_sparkscale.driver.wire import Batch


def batch(number: int) -> Batch:
    return Batch("q", completed_at=float(number), processing_ms=1, batch_id=number)


@given(st.integers(1, 20), st.integers(0, 60), st.integers(0, 70))
def test_since_gives_each_newer_batch_that_is_kept_once(limit: int, added: int, since: int) -> None:
    history = History(limit)
    numbers = [history.add(batch(n)) for n in range(1, added + 1)]
    assert numbers == list(range(1, added + 1))
    found, last = history.read(since=since)
    assert last == added
    kept = range(max(1, added - limit + 1), added + 1)
    assert [b.batch_id for b in found] == [n for n in kept if n > since]


def test_a_window_selects_by_time_of_completion() -> None:
    history = History()
    for n in range(10):
        history.add(batch(n))
    found, last = history.read(after=6.5)
    assert ([b.batch_id for b in found], last) == ([7, 8, 9], 10)
    assert history.read(since=9, after=3.0)[0] == [batch(9)]
    # Who asks for what followed the last batch seen does not get that one again.
    assert history.read(after=8.0)[0] == [batch(9)]


def test_the_batch_before_a_window_leads_it_that_of_each_query() -> None:
    history = History()
    other = Batch("other", completed_at=4.5, processing_ms=1)
    for each in (batch(1), other, *map(batch, range(2, 9))):
        history.add(each)
    found, _ = history.read(after=6.5, leading=True)
    assert found == [other, batch(6), batch(7), batch(8)]
    assert history.read(after=8.0, leading=True)[0] == [other, batch(8)]
    assert history.read(since=9, after=0.0, leading=True)[0] == []


def test_when_the_last_batch_completed_that_is_not_kept_is_known() -> None:
    history = History(limit=3)
    dropped = []
    for n in range(5):
        history.add(batch(n))
        dropped.append(history.dropped_at)
    assert dropped == [None, None, None, 0.0, 1.0]


def test_the_first_batch_of_each_query_that_works_is_cold() -> None:
    def cold(query: str, records: int | None, took: int = 5) -> bool:
        history.add(Batch(query, 1.0, took, records=records))
        return history.read()[0][-1].cold

    history = History()
    assert history.is_cold("a")
    assert not cold("a", 0) and not cold("a", None, WORKED_MS - 1)
    assert history.is_cold("a")
    assert cold("a", 3) and not cold("a", 3)
    assert history.is_cold("b") and not history.is_cold("a")
    assert cold("b", None, WORKED_MS)  # its source does not count
    assert not cold("a", 3)


def test_names_that_programs_make_up_do_not_pile_up() -> None:
    history = History()
    for n in range(3 * LIMIT):
        history.add(Batch(f"query {n}", 1.0, 5, records=1))
        last = history.add(Batch("steady", 1.0, 5, records=1))
        ((steady,), _) = history.read(since=last - 1)
        assert steady.cold == (n == 0)
    assert len(history._warm) == LIMIT
    assert not history.is_cold("steady")


def test_before_a_batch_is_added_it_is_told_whether_it_will_be_cold() -> None:
    history = History()
    nothing, work = Batch("q", 1.0, 5), Batch("q", 1.0, 5, records=1)
    assert not history.would_be_cold(nothing)
    assert history.would_be_cold(work)
    assert history.would_be_cold(Batch("q", 1.0, WORKED_MS))
    history.add(work)
    assert not history.would_be_cold(work)
    assert history.would_be_cold(Batch("other", 1.0, 5, records=1))


def test_the_last_batch_of_a_query_that_was_done() -> None:
    history = History()
    assert history.last_done("q") is None
    for number in (3, 4):
        history.add(batch(number))
    history.add(Batch("q", 5.0, 1, batch_id=5, failed=True))
    history.add(Batch("q", 6.0, 0))  # triggers that found no data
    history.add(Batch("other", 7.0, 1, batch_id=9))
    assert (history.last_done("q"), history.last_done("other")) == (4, 9)
