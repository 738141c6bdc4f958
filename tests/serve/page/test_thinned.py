"""Minutes become few points, each the worst of those it stands for, and no gap is closed."""

from dataclasses import fields
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.serve.page.stream import RANGES
from dagster_sparkscale.serve.page.thinned import (
    GAP,
    MOST,
    TICK,
    WORST,
    points,
    thinned,
    width,
    with_gaps,
)

NUMBERS = st.none() | st.integers(0, 1000)
MINUTES = st.lists(
    st.builds(
        Minute,
        at=st.integers(0, 40_000),
        state=st.sampled_from(["running", "failed"]),
        ratio=NUMBERS,
        lag=NUMBERS,
        registered=NUMBERS,
        requested=NUMBERS,
        processed_rate=NUMBERS,
        limit=NUMBERS,
        decision=st.none() | st.just("scale to 3"),
    ),
    unique_by=lambda each: each.at,
    max_size=40,
).map(lambda found: sorted(found, key=lambda each: each.at))
WORSE = (
    *(("ratio", max), ("lag", max), ("requested", max)),
    *(("registered", min), ("processed_rate", min), ("limit", min)),
)
WIDTHS = st.integers(2, 60).map(lambda number: number * TICK)


@given(MINUTES, WIDTHS)
def test_a_point_is_the_worst_of_its_minutes(minutes: list[Minute], wide: int) -> None:
    found = thinned(points(minutes), wide)
    assert sum(1 for _ in found) == len({each.at // wide for each in minutes})
    for point in found:
        own = [each for each in minutes if point.first <= each.at <= point.last]
        assert own and own[0].at == point.first == point.worst.at and own[-1].at == point.last
        for name, worst in WORSE:
            known = [getattr(each, name) for each in own if getattr(each, name) is not None]
            assert getattr(point.worst, name) == (worst(known) if known else None)
        assert point.worst.state == own[-1].state


@given(MINUTES, WIDTHS, st.integers(0, 40), st.integers(0, 5))
def test_to_thin_again_with_more_minutes_is_to_thin_at_once(
    minutes: list[Minute], wide: int, cut: int, twice: int
) -> None:
    before = thinned(points(minutes[: cut + twice]), wide)
    assert thinned([*before, *points(minutes[cut:])], wide) == thinned(points(minutes), wide)
    assert thinned([*points(minutes[cut:]), *before], wide) == thinned(points(minutes), wide)


@given(MINUTES)
def test_each_minute_is_kept_where_there_is_room(minutes: list[Minute]) -> None:
    assert thinned(points([*minutes, *minutes]), TICK) == points(minutes)


@given(MINUTES, st.just(TICK) | WIDTHS)
def test_what_was_not_measured_is_a_gap_and_nothing_else_is(
    minutes: list[Minute], wide: int
) -> None:
    found = thinned(points(minutes), wide)
    rows = with_gaps(found)
    assert [row for row in rows if row[1] is not None] == [(e.first, e.worst) for e in found]
    assert [at for at, _ in rows] == sorted({at for at, _ in rows})
    gaps = sum(1 for a, b in pairwise(found) if b.first - a.last > GAP)
    assert len(rows) - len(found) == gaps
    assert rows[-1:] == [] or rows[-1][1] is not None


def test_a_page_has_few_points() -> None:
    for seconds in RANGES.values():
        assert width(seconds) % TICK == 0
        minutes = [Minute(at) for at in range(0, seconds, TICK)]
        assert len(thinned(points(minutes), width(seconds))) <= MOST + 1
    assert [width(seconds) for seconds in RANGES.values()] == [60, 60, 60, 420, 1620]


def test_every_field_has_a_worst_value() -> None:
    assert {field.name for field in fields(Minute)} == set(WORST)
