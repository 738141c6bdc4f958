import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.page_sizes import FIRST, LEAST, MOST, TRUST, Pages

stamps = st.floats(0, 1e12)


@given(
    st.none() | stamps,
    st.lists(st.tuples(st.integers(1, MOST), stamps, stamps), max_size=20),
)
@example(1.0, [(231, 0.0, 1e-306)])
def test_a_page_is_what_the_service_takes_and_no_leap(end, pages):
    sizes = Pages(end)
    for records, first, last in pages:
        assert isinstance(sizes.next(), int)
        assert LEAST <= sizes.next() <= MOST
        assert end is None or sizes.next() <= max(FIRST, TRUST * sizes.read)
        sizes.saw(records, first, last)


def test_where_nothing_lies_beyond_the_end_pages_are_as_large_as_can_be():
    sizes = Pages(None)
    sizes.saw(10, 0.0, 5000.0)
    assert sizes.next() == MOST


def read_to_the_end(stamps, end_ms, head):
    """How many records and pages it takes to pass `end_ms`, behind a head that was read before."""
    sizes = Pages(end_ms)
    sizes.saw(head, stamps[0], stamps[head - 1])
    at, calls = head, 0
    while stamps[at - 1] < end_ms:
        size = sizes.next()
        page = stamps[at : at + size]
        sizes.saw(len(page), page[0], page[-1])
        at, calls = at + size, calls + 1
    return at, calls


@pytest.mark.parametrize("rate", [50, 200, 1000])
@pytest.mark.parametrize("seconds", [10, 60, 300])
@pytest.mark.parametrize("kind", ["even", "by chance", "in bursts"])
def test_little_is_read_in_vain_and_few_pages_are_small(kind, seconds, rate):
    chance, most_ms = random.Random(5), 2000 * seconds
    count = rate * most_ms // 1000
    if kind == "even":
        stamps = [number * 1000 / rate for number in range(count)]
    elif kind == "by chance":
        stamps = sorted(chance.uniform(0, most_ms) for _ in range(count))
    else:
        bursts = sorted(chance.uniform(0, most_ms) for _ in range(count // 100))
        stamps = [at for at in bursts for _ in range(100)]
    end_ms = 1000 * seconds
    wanted = sum(stamp < end_ms for stamp in stamps)
    read, calls = read_to_the_end(stamps, end_ms, min(200, wanted))
    assert read <= 1.2 * wanted + 100
    assert calls <= 8 + wanted / 5000


def test_a_rest_that_is_not_what_it_seems_is_not_read_bit_by_bit():
    # Two thousand records arrived at the very end of the range.
    stamps = [float(number) for number in range(1000)] + [999.5] * 2000 + [1000.0] * 5000
    _, calls = read_to_the_end(stamps, 1000.0, 900)
    assert calls <= 8


def test_of_a_large_rest_most_is_asked_for_and_of_a_small_one_a_little_more():
    half_way = Pages(end_ms=2000.0)
    half_way.saw(1000, 1000.0, 1500.0)
    assert half_way.next() == 800
    near = Pages(end_ms=2100.0)
    near.saw(1000, 1000.0, 2000.0)
    assert near.next() == 120


def test_a_rest_that_does_not_end_is_asked_for_in_pages_twice_as_large_each_time():
    sizes = Pages(end_ms=2000.0)
    sizes.saw(1000, 1000.0, 2000.0)
    assert [sizes.next() for _ in range(3)] == [50, 100, 200]
