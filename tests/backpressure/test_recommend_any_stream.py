"""What holds of each recommendation, whatever there is of history and limits."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dagster_sparkscale.backpressure.recommend import recommend
from dagster_sparkscale.backpressure.throughput import Sustained, sustained
from dagster_sparkscale.backpressure.tunables import with_values
from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.in_force.limits import values_of as values
from dagster_sparkscale.in_force.tuned import declared_limits
from dagster_sparkscale.observe.minutes import Minute
from tests.backpressure.advising import after
from tests.backpressure.histories import BEGAN, CLICKS, in_force, minute, minutes
from tests.fakes import dstream, structured

amounts = st.none() | st.floats(0.01, 1e6, allow_nan=False)
tallies = st.none() | st.integers(0, 20)
blocks = st.builds(
    dict,
    ratio=st.none() | st.floats(0, 3),
    registered=tallies,
    processing_ms=st.none() | st.floats(1, 60_000),
    input_rate=amounts,
    processed_rate=amounts,
    completed=tallies,
    failed=st.sampled_from([None, 0, 0, 0, 1]),
    limit=amounts,
    throttled=st.sampled_from([None, "counts"]),
    epoch=st.integers(1, 3),
)


@st.composite
def histories(draw) -> list[Minute]:
    """Stretches of an hour, each of which is like another; with gaps between some."""
    found, at = [], BEGAN
    for fields in draw(st.lists(blocks, min_size=1, max_size=14)):
        at += draw(st.sampled_from([0, 0, 7200]))
        for _ in range(60):
            found.append(Minute(at, "running", **fields))
            at += 60
    return found


likely = histories() | st.builds(
    lambda speed, busy, executors: minutes(
        400,
        processed_rate=speed * executors,
        ratio=busy,
        registered=executors,
        processing_ms=busy * 10_000,
        input_rate=speed * executors * busy,
    ),
    st.floats(0.1, 1e5),
    st.floats(0.5, 2),
    st.integers(1, 9),
)
limits = st.none() | st.integers(1, 10**7)


def ordered(*given: float | None) -> list[float | None]:
    """The values that there are in ascending order, in the places of those that there are."""
    there = iter(sorted(value for value in given if value is not None))
    return [None if value is None else next(there) for value in given]


@st.composite
def streams(draw):
    kind = draw(st.sampled_from(["options", "policy", "receivers"]))
    if kind == "options":
        least, most = ordered(draw(limits), draw(limits))
        least = None if most is None else least
        return structured(
            limits={
                name: SourceLimits(max_offsets_per_trigger=most, min_offsets_per_trigger=least)
                for name in draw(st.sampled_from([["a"], ["a", "b"]]))
            }
        )
    if kind == "policy":
        floor, first, most = ordered(draw(st.integers(1, 10**6)), draw(limits), draw(limits))
        policy = BackpressurePolicy(min_rate=floor, initial_rate=first, max_rate=most)
        return structured(backpressure=policy)
    first, most = ordered(draw(limits), draw(limits))
    declared = StreamingLimits(initial_rate=first, max_rate=most)
    return dstream(receivers=draw(st.integers(1, 3)), limits=declared)


def situation(stream, start: int, most: int | None, **fields):
    present = values(stream, declared_limits(stream))
    receivers = getattr(stream, "receivers", 0)
    return in_force(values=present, start=start, most=most, rated=1, receivers=receivers, **fields)


# A start does less than one record a second, and the limit of more executors is below the first.
SLOW = minutes(
    400, processed_rate=2.5, ratio=0.5, registered=5, processing_ms=5000, input_rate=1.25
)


@settings(deadline=None)
@example(SLOW, dstream(receivers=2, limits=StreamingLimits(initial_rate=2)), 1, None, 1.0, False)
@given(
    *(likely, streams(), st.integers(1, 9), st.none() | st.integers(1, 9)),
    *(st.floats(0.01, 3), st.booleans()),
)
def test_what_is_recommended_fits_together_and_is_no_more_than_was_measured(
    history, stream, start, most, least_gain, scaled
):
    now = situation(stream, start, most, scaled=scaled)
    found = recommend(history, now, least_gain)
    assert bool(found.recommended) != bool(found.why_not)
    wanted = {each.limit: each.after for each in found.recommended}
    with_values(stream, now.values, wanted)  # else the declaration refuses it
    if not wanted:
        return
    seen = sustained(history, now.interval)
    assert isinstance(seen, Sustained)
    fastest = max((m.processed_rate or 0) / m.registered for m in history if m.registered)
    for each in found.recommended:
        assert each.why and each.effect
        assert each.after != each.before
        executors = max(seen.executors, start, seen.most, most or 0)
        bound = fastest * executors * (1 + 1e-9)
        if each.limit.endswith("OffsetsPerTrigger"):
            bound *= now.interval
        assert each.after <= bound, each


@settings(deadline=None)
@given(st.floats(1, 1e4), st.floats(1, 4), st.integers(1, 5), st.integers(0, 4))
def test_faster_executors_and_more_of_them_never_get_less(speed, factor, executors, more):
    def limit(speed: float, executors: int) -> float:
        history = [
            minute(n, processed_rate=speed * executors, registered=executors, input_rate=0.5)
            for n in range(480)
        ]
        return after(history).get(CLICKS, 0)

    assert limit(speed * factor, executors) >= limit(speed, executors)
    assert limit(speed, executors + more) >= limit(speed, executors)
