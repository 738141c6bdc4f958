"""In which order a tick tells of streams, and for how long."""

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.watch import turns
from dagster_sparkscale.watch.turns import (
    LEAST_RUNS,
    RUNS,
    Room,
    Turn,
    in_turn,
    runs_of,
    to_assess,
    who_waits,
)

NOW = 1_800_000_000.0
MINUTE = 60.0

a_turn = st.builds(
    Turn,
    stream=st.uuids().map(str),
    acts=st.booleans(),
    changed=st.booleans(),
    told_at=st.just(0.0) | st.floats(NOW - 1e5, NOW + 1e3),
    report_every=st.floats(60.0, 3600.0),
)


class TestOrder:
    @given(st.lists(a_turn, unique_by=lambda turn: turn.stream))
    def test_every_stream_has_its_turn_once(self, some):
        assert sorted(in_turn(some, NOW)) == sorted(turn.stream for turn in some)

    @given(st.lists(a_turn, unique_by=lambda turn: turn.stream))
    def test_decisions_and_who_has_waited_too_long_come_before_changes_and_these_before_the_rest(
        self, some
    ):
        by_name = {turn.stream: turn for turn in some}

        def matters(turn: Turn) -> int:
            overdue = not 0 <= NOW - turn.told_at <= 2 * turn.report_every
            return 2 if turn.acts or overdue else 1 if turn.changed else 0

        order = [matters(by_name[name]) for name in in_turn(some, NOW)]
        assert order == sorted(order, reverse=True)

    def test_of_streams_never_told_of_those_come_first_for_which_a_run_is_asked(self):
        some = [Turn(f"s{n}", n == 7, True, 0.0, 600.0) for n in range(10)]
        assert in_turn(some, NOW)[0] == "s7"

    @given(
        st.integers(1, 60),
        st.integers(1, 10),
        st.sampled_from([60.0, 600.0, 3600.0]),
        st.data(),
    )
    def test_whoever_acts_or_changes_each_minute_nobody_waits_for_ever(
        self, streams, capacity, report_every, data
    ):
        """As many are told of in a tick as there is room for; all of them always have something."""
        names = [f"s{n}" for n in range(streams)]
        pushing = st.dictionaries(st.sampled_from(names), st.booleans())
        loud = data.draw(pushing)
        told_at = dict.fromkeys(names, 0.0)
        round_ = -(-streams // capacity)
        longest = int(2 * report_every / MINUTE) + 1 + round_
        for tick in range(3 * longest):
            now = NOW + MINUTE * tick
            due = [
                Turn(name, loud.get(name, False), name in loud, told_at[name], report_every)
                for name in names
            ]
            for name in in_turn(due, now)[:capacity]:
                told_at[name] = now
            since = NOW - MINUTE
            assert min(max(at, since) for at in told_at.values()) >= now - MINUTE * longest


class TestAssessing:
    @given(st.dictionaries(st.text(), st.floats(0, 1e10)), st.data())
    def test_what_has_failed_comes_first_then_who_waited_longest(self, decided_at, data):
        failed = data.draw(st.sets(st.sampled_from(sorted(decided_at)))) if decided_at else set()
        order = to_assess(decided_at, failed)
        assert sorted(order) == sorted(decided_at)
        assert set(order[: len(failed)]) == failed
        for some in (order[: len(failed)], order[len(failed) :]):
            assert [decided_at[name] for name in some] == sorted(decided_at[n] for n in some)


class TestRoom:
    @given(
        st.floats(1.0, 100.0),
        st.booleans(),
        st.floats(0.005, 1.0),
        st.lists(st.tuples(st.floats(0.0, 0.5), st.integers(0, 50))),
    )
    def test_a_tick_ends_one_stream_after_its_time_at_the_latest(
        self, seconds, runs, pace, streams
    ):
        room, elapsed, storing = Room(seconds, runs, pace), 0.0, 0.0
        for took, events in streams:
            if not room.is_left(elapsed):
                break
            assert elapsed + storing < seconds
            assert not runs or storing < turns.BEFORE_RUNS
            elapsed += took
            room.take(events, events * 1000)
            storing += events * pace
        else:
            return
        assert elapsed + storing >= seconds or (runs and storing >= turns.BEFORE_RUNS)

    def test_what_dagster_is_told_of_is_bounded_in_characters(self):
        room = Room(1e9, runs=False, pace=0.01)
        room.take(1, int(turns.MOST_TOLD))
        assert room.is_left(0.0)
        room.take(1, 1)
        assert not room.is_left(0.0)

    def test_it_leaves_dagster_time_for_a_slow_machine(self):
        assert turns.LOOKING < turns.ASSESSING < 1
        assert turns.TICK <= 0.7 * 60


@given(
    st.dictionaries(st.text(max_size=3), st.floats(0, 100), max_size=12),
    st.sets(st.text(max_size=3), max_size=6),
    st.integers(0, 14),
)
def test_of_more_runs_than_there_may_be_those_come_first_that_have_failed_or_waited_longest(
    wanted, failed, most
):
    waiting = who_waits(wanted, failed, most)
    asked = wanted.keys() - waiting
    assert len(asked) == min(most, len(wanted))
    assert all(
        (one not in failed, wanted[one]) <= (other not in failed, wanted[other])
        for one in asked
        for other in waiting
    )


@given(st.integers(1, 100))
def test_the_sensors_of_a_cluster_share_its_runs(shards):
    assert runs_of(shards) >= LEAST_RUNS
    assert shards * runs_of(shards) <= max(RUNS, shards * LEAST_RUNS)
