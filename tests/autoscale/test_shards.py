"""As far as the shards of a stream's source keep executors busy, and no further."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale import rescale as module
from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.autoscale.rescale import RescaleRequest, rescale
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.watch.sighting import Sighting
from tests.autoscale import reference
from tests.autoscale.deciding import any_bounds, anything, ratios, target
from tests.autoscale.test_lag import late_or_not, limited
from tests.fakes import QUERY, batch, driver, dstream, scaled, status, structured
from tests.in_memory.cluster import World
from tests.watch.assessing import assess

TWO_CORES = structured(executor_cores=2, autoscale=RatioPolicy(max_executors=10))
WORDS = "4 shards are read by 4 tasks: 2 executors of 2 cores are as many as can work on a batch"


def decided(shards=4, stream=TWO_CORES, registered=1, requested=None, **measured):
    requested = registered if requested is None else requested
    evaluation = Evaluation(
        window=60.0, registered=registered, requested=requested, silence="nothing seen", **measured
    )
    return stream.autoscale.decide(stream.bounds_for(shards), evaluation)


class TestBounds:
    @pytest.mark.parametrize(
        ("shards", "per_shard", "cores", "useful"),
        [
            *((1, 1.0, 1, 1), (4, 1.0, 2, 2), (5, 1.0, 2, 3), (4, 1.0, 8, 1)),
            *((4, 2.5, 2, 5), (3, 0.5, 1, 2), (1, 0.1, 1, 1), (50, 1.1, 1, 55)),
        ],
    )
    def test_a_shard_is_a_task_and_a_task_a_core(self, shards, per_shard, cores, useful):
        stream = structured(executor_cores=cores, tasks_per_shard=per_shard)
        assert stream.bounds_for(shards).useful == useful

    @given(st.integers(1, 10**6), st.decimals("0.01", 100, places=2), st.integers(1, 64))
    def test_it_agrees_with_exact_arithmetic(self, shards, per_shard, cores):
        stream = structured(executor_cores=cores, tasks_per_shard=float(per_shard))
        expected = reference.useful_executors(shards, Fraction(per_shard), cores)
        assert stream.bounds_for(shards).useful == expected

    @pytest.mark.parametrize("shards", [None, 0])
    def test_where_no_shard_is_read_nothing_is_known(self, shards):
        assert TWO_CORES.bounds_for(shards) == TWO_CORES.bounds

    def test_receivers_take_their_cores_from_the_batches(self):
        stream = dstream(receivers=3, executor_cores=2)
        assert stream.bounds_for(4).useful == 4
        assert "4 tasks beside 3 receivers" in stream.bounds_for(4).useful_note
        assert dstream(executor_cores=2).bounds_for(4).useful == 2

    def test_a_task_may_take_more_than_one_core(self):
        stream = structured(executor_cores=5, spark_conf={"spark.task.cpus": 2})
        assert stream.bounds_for(6).useful == 3
        whole = structured(executor_cores=1, spark_conf={"spark.task.cpus": "nonsense"})
        assert whole.bounds_for(6).useful == 6

    def test_one_is_counted_in_the_singular(self):
        assert structured().bounds_for(1).useful_note == (
            "1 shard is read by 1 task: 1 executor of 1 core is as many as can work on a batch"
        )

    @pytest.mark.parametrize("wrong", [0, -1, 10_001, float("inf"), float("nan"), "many"])
    def test_tasks_per_shard_must_make_sense(self, wrong):
        with pytest.raises(DeclarationError, match=r"StructuredStream 'clicks': tasks_per_shard ="):
            structured(tasks_per_shard=wrong)

    @given(any_bounds, st.none() | st.integers(1, 60), st.integers(0, 200))
    def test_an_aim_is_in_the_bounds_and_in_vain_only_for_the_minimum(self, bounds, useful, wanted):
        aimed = replace(bounds, useful=useful).aim(wanted)
        assert bounds.clamp(aimed) == aimed
        assert aimed <= max(wanted, bounds.minimum)
        assert useful is None or aimed <= max(useful, bounds.minimum)


class TestDecided:
    def test_it_goes_up_as_far_as_the_shards_go_and_says_why_no_further(self):
        assert decided(ratio=5.0) == ScaleTo(
            2, f"1 registered -> 2 ({WORDS}): R 5.00 is at or above 0.9"
        )
        assert "shards" not in decided(ratio=1.0).reason  # one more is all it wants

    @pytest.mark.parametrize("registered", [2, 6])
    def test_there_it_is_pinned_and_nothing_is_taken_away(self, registered):
        decision = decided(ratio=1.2, registered=registered)
        assert decision == Hold(f"R 1.20 is at or above 0.9, but {WORDS}", pinned=True)

    def test_a_stuck_batch_and_a_long_lag_are_held_there_too(self):
        assert decided(ratio=None, stalled=9.0, registered=2).pinned
        late = structured(executor_cores=2, autoscale=RatioPolicy(max_lag=60))
        assert decided(stream=late, ratio=0.5, lag=900.0, registered=2).pinned
        assert decided(stream=late, ratio=0.5, lag=900.0, registered=1).target == 2

    def test_where_shards_are_not_told_the_bounds_alone_count(self):
        assert decided(shards=None, ratio=5.0).target == 6

    def test_the_minimum_wins(self):
        stream = structured(executor_cores=2, autoscale=RatioPolicy(min_executors=3))
        assert isinstance(decided(stream=stream, ratio=0.0, registered=3), Hold)
        assert decided(stream=stream, ratio=5.0, registered=3).pinned
        lost = decided(stream=stream, ratio=None, registered=0, requested=0)
        assert (lost.target, decided(stream=stream, ratio=5.0, registered=1).target) == (3, 3)

    def test_what_a_person_asked_for_beyond_stays_until_the_load_is_low(self):
        assert isinstance(decided(ratio=0.5, registered=6), Hold)
        assert decided(ratio=0.1, registered=6) == ScaleTo(
            2, f"6 registered -> 2 ({WORDS}): R 0.10 is at or below 0.3"
        )

    def test_the_lower_of_maximum_and_shards_is_named(self):
        stream = structured(executor_cores=2, autoscale=RatioPolicy(max_executors=2))
        assert decided(stream=stream, ratio=5.0, registered=2, shards=40).reason.endswith(
            "but 2 executors are the maximum"
        )

    def test_a_look_at_a_stream_counts_its_shards(self):
        queries = (Query(QUERY, active=True, source_shards=3),)
        stream = scaled(max_executors=10)
        sighting = Sighting("clicks", driver(), status(queries=queries, batches=(batch(60),)))
        decision = assess(stream, sighting, now=2000.0).decision
        assert decision.target == 3
        assert "3 shards are read by 3 tasks" in decision.reason

    @pytest.mark.parametrize(("seconds", "executors"), [(30, 15), (2, 11)])
    def test_a_query_that_does_not_tell_keeps_the_shards_of_another_from_being_the_limit(
        self, seconds, executors
    ):
        queries = (Query(QUERY, active=True, source_shards=2), Query("other", active=True))
        report = status(queries=queries, batches=(batch(seconds),), registered=12, requested=12)
        stream = scaled(max_executors=20)
        decision = assess(stream, Sighting("clicks", driver(), report), now=2000.0).decision
        assert decision.target == executors


class TestProperties:
    @given(limited, any_bounds, st.integers(1, 60), anything, st.integers(0, 100), late_or_not)
    def test_no_target_is_above_what_the_shards_keep_busy(
        self, policy, bounds, useful, seen, requested, measured
    ):
        narrowed = replace(bounds, useful=useful, useful_note="so few shards")
        seen = replace(seen, requested=bounds.clamp(requested), **measured)
        decision = policy.decide(narrowed, seen)
        if isinstance(decision, ScaleTo):
            assert decision.target <= max(useful, bounds.minimum)
            assert bounds.clamp(decision.target) == decision.target

    @given(limited, any_bounds, st.integers(1, 60), anything, st.integers(0, 100), late_or_not)
    def test_fewer_shards_never_mean_more_executors(
        self, policy, bounds, useful, seen, requested, measured
    ):
        seen = replace(seen, requested=requested, **measured)
        some = target(policy.decide(replace(bounds, useful=useful), seen), requested)
        unlimited = target(policy.decide(bounds, seen), requested)
        assert some <= max(unlimited, requested)

    @given(
        ratio=ratios,
        low=st.integers(1, 20),
        above_low=st.integers(0, 20),
        below_high=st.none() | st.integers(0, 20),
        useful=st.none() | st.integers(1, 60),
        measured=late_or_not,
    )
    def test_the_decision_is_that_of_the_reference(
        self, ratio, low, above_low, below_high, useful, measured
    ):
        registered = low + above_low
        high = None if below_high is None else registered + below_high
        lag, falling = measured["lag"], measured["catching_up"]
        late = lag is not None and lag > 300
        if late and falling is not None:
            assume(abs(lag - falling * 60 - 300) > 1e-6)  # two ways to round one number
        expected = reference.executors_with_a_source(
            Fraction(ratio),
            registered=registered,
            up=Fraction(0.9),
            down=Fraction(0.3),
            low=low,
            high=high,
            useful=useful,
            late=late,
            catching_up=late and falling is not None and lag - falling * 60 <= 300,
            paced=measured["lag_paced"],
        )
        seen = Evaluation(
            window=60.0,
            registered=registered,
            requested=registered,
            ratio=ratio,
            **measured,
        )
        bounds = Bounds(low, high, low, useful=useful, useful_note="so few shards")
        decision = RatioPolicy(max_lag=300).decide(bounds, seen)
        assert target(decision, registered) == expected


class TestByHand:
    @pytest.fixture
    def notes(self, monkeypatch):
        """The notes of a rescale to so many executors, while so many shards are read."""
        monkeypatch.setattr(module, "_POLL", 0)

        def carry_out(executors, shards, **fields):
            world = World()
            queries = (Query(QUERY, active=True, source_shards=shards),)
            stream = scaled(**{"max_executors": 10} | fields)
            world.run(stream, queries=queries)
            request = RescaleRequest("clicks", target=executors)
            story = rescale(world.cluster, stream, request, Requester("x"))
            assert (story.ending, story.registered_after) == ("reached", executors)
            return story.notes

        return carry_out

    def test_more_than_the_shards_keep_busy_are_requested_with_a_note(self, notes):
        assert notes(6, 4) == [
            "4 shards are read by 4 tasks: 4 executors of 1 core are as many as can work on a "
            "batch; 6 were requested all the same"
        ]

    @pytest.mark.parametrize(("executors", "shards"), [(4, 4), (1, 4), (6, None), (6, 0)])
    def test_others_are_no_news(self, notes, executors, shards):
        assert notes(executors, shards) == []

    def test_nor_is_the_minimum(self, notes):
        assert notes(3, 1, min_executors=3) == []
