"""Whose limit a query stands at, as its evaluation says it, and that the policy goes by that."""

from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.status import Limit, Query
from tests.fakes import QUERY, batch, status

BOUNDS = Bounds(minimum=1, maximum=10, initial=1)


def seen(limits: tuple[Limit, ...] = (), **fields: Any) -> Evaluation:
    """A query that has taken two batches of 100 records, which was its limit, of 10 s."""
    plain: dict[str, Any] = {
        "queries": (Query(QUERY, True, interval_ms=10_000),),
        "batches": tuple(
            replace(batch(8.8, ago=ago), records=100, limit=100.0) for ago in (5.0, 15.0)
        ),
    }
    return evaluate(status(**plain | fields, limits=limits), window=60.0, batch_interval=10.0)


def limit(by: str = "estimator", rate: float | None = 10.0, source: str = "s", query: str = QUERY):
    return Limit(source, query=query, rate=rate, by=by)


class TestWhoseLimitItIs:
    def test_it_is_told_with_how_much_it_lets_through(self) -> None:
        told = seen((limit("set"),))
        assert (told.throttled, told.throttled_by, told.throttled_limit) == (QUERY, "set", 10.0)
        decision = RatioPolicy().decide(BOUNDS, told)
        assert (
            "of 10 records/s (what waits is not known), R 0.88, but more executors would not read"
            in decision.reason
        )

    @pytest.mark.parametrize(
        ("limits", "by"),
        [
            # None of its sources takes live limits, so that it is of its options.
            ((), "source"),
            ((limit(query="other"),), "source"),
            ((limit(rate=None),), None),
            ((limit(rate=5.0), limit(rate=5.0, source="t")), "estimator"),
            ((limit("set", 5.0), limit(rate=5.0, source="t")), None),
            ((limit("set"), limit("nobody", None, source="t")), "set"),
            ((limit("set"), limit("start", query="other")), "set"),
            # The source's own options, or an estimate that has just grown.
            ((limit(rate=12.5),), "estimator"),
            ((limit(rate=12.6),), "source"),
            ((limit(rate=6.3), limit(rate=6.3, source="t")), "source"),
            ((limit("set", 1.0),), "set"),
        ],
    )
    def test_of_several_sources(self, limits: tuple[Limit, ...], by: str | None) -> None:
        assert seen(limits).throttled_by == by

    def test_a_batch_without_data_says_nothing_of_the_limit(self) -> None:
        nothing = replace(batch(0.0, ago=1.0, triggers=3), records=0)
        full = replace(batch(8.8, ago=15.0), records=100, limit=100.0)
        told = seen((limit(),), batches=(full, nothing))
        assert (told.limit, told.throttled) == (10.0, None), "it had less than it might"
        unlimited = replace(batch(8.8, ago=1.0), records=5)
        assert seen((limit(),), batches=(full, unlimited)).limit is None

    def test_half_of_a_limit_is_enough_of_one_batch_if_all_together_have_nearly_all(self) -> None:
        def of(*records: int | None) -> str | None:
            return seen(
                batches=tuple(
                    replace(batch(8.8, ago=5.0 + n), records=each, limit=4.0)
                    for n, each in enumerate(records)
                )
            ).throttled

        assert of(2, 6) == QUERY
        assert of(1, 7) is None
        assert of(None, 8) is None
        assert of(4, 4, 4, 3) is None and of(*[4] * 19, 3) == QUERY

    def test_a_batch_of_which_it_is_not_known_what_it_had_says_nothing(self) -> None:
        unknown = replace(batch(8.8, ago=5.0), records=None, limit=1.0)
        assert seen(batches=(unknown,)).throttled is None

    def test_a_limit_of_which_it_is_not_known_who_reads_it_is_nobody_s(self) -> None:
        unread = Limit("s", rate=10.0, by="set")
        told = seen((unread,))
        assert told.throttled_by == "source", "as of a source that takes no live limits"
        assert isinstance(RatioPolicy().decide(BOUNDS, told), Hold)
        assert seen((unread,), batches=(batch(8.8),)).throttled_by is None
        assert seen((), batches=(batch(8.8),)).throttled_by is None

    def test_a_failed_batch_is_passed_over(self) -> None:
        full = replace(batch(8.8, ago=5.0), records=100, limit=100.0)
        other = replace(batch(8.8, ago=1.0), records=10, limit=100.0)
        failed = replace(other, failed=True)
        assert seen(batches=(failed, full)).throttled == QUERY
        assert seen(batches=(failed, full, other)).throttled is None

    def test_less_than_a_record_is_a_limit_too(self) -> None:
        full = replace(batch(8.8, ago=5.0), records=1, limit=0.5)
        assert seen(batches=(full,)).throttled == QUERY

    def test_a_query_that_is_not_at_its_limit_has_none_of_that(self) -> None:
        free = seen((limit(),), batches=(batch(8.8),))
        assert free.throttled is free.throttled_by is None
        assert free.throttled_limit is free.throttled_lag is None

    def test_its_lag_is_its_own_and_no_older_than_what_spark_said(self) -> None:
        queries = (
            Query("other", True, behind_ms=9000),
            Query(QUERY, True, interval_ms=10_000, behind_ms=2000),
        )
        assert seen(queries=queries).throttled_lag == 2.0
        assert seen(queries=queries).lag == 9.0
        assert seen(queries=queries, spark_age=31.0).throttled_lag is None
        assert seen().throttled_lag is None

    def test_a_throttled_stream_with_growing_lag_is_scaled_up(self) -> None:
        """From what the agent says to the decision."""
        batches = tuple(
            replace(batch(8.8, ago=ago, behind_ms=behind), records=100, limit=100.0)
            for ago, behind in ((25.0, 20_000), (5.0, 30_000))
        )
        query = Query(QUERY, True, interval_ms=10_000, behind_ms=30_000)
        told = seen((limit(),), batches=batches, queries=(query,))
        assert told.catching_up == -0.5
        decision = RatioPolicy(max_executors=8, max_lag=20).decide(BOUNDS, told)
        assert isinstance(decision, ScaleTo) and decision.target == 2 + 2
        within = RatioPolicy(max_executors=8, max_lag=40).decide(BOUNDS, told)
        assert isinstance(within, Hold)
