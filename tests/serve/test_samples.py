"""The metrics of `sparkscale serve`: their values, and what is never made up."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.driver.metrics.samples import MOST_QUERIES
from dagster_sparkscale.observe.status import Limit, Query, QueryState, Totals
from dagster_sparkscale.serve.metrics import ALL, ENDINGS, of_budget, of_stream, of_tallies
from dagster_sparkscale.serve.tally import Tally
from dagster_sparkscale.watch.assess import assess
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import QUERY, batch, driver, scaled, status, structured
from tests.serve.scraping import Found, named, of

NOW = 2000.0
ROOT = Path(__file__).parents[2]


def looked_at(sighting: Sighting, stream: Any = None, **known: Any) -> Found:
    assessment = assess(
        stream or scaled(max_executors=10), sighting, capabilities=CAPABILITIES, now=NOW, **known
    )
    return named(of_stream("c", assessment))


class TestOfALook:
    def test_a_stream_that_runs(self) -> None:
        said = status(
            batches=(batch(4.0), batch(6.0, ago=15)),
            requested=3,
            queries=(Query(QUERY, active=True, interval_ms=10_000, behind_ms=1500),),
        )
        found = looked_at(Sighting("clicks", driver(), said))
        assert of(found, "stream_state") == 1
        assert of(found, "stream_state", state="running", cluster="c", stream="clicks") == 1
        assert of(found, "agent_up") == 1
        assert of(found, "ratio", query=QUERY) == 0.5
        assert of(found, "lag_seconds", cluster="c", query=QUERY) == 1.5
        kinds = ("registered", "requested", "minimum", "maximum", "leaving")
        assert [of(found, "executors", kind=kind) for kind in kinds] == [2, 3, 1, 10, 0]
        assert of(found, "input_records_per_second") == pytest.approx(200 / 60)
        assert of(found, "check_passed", check="ratio_below_one") == 1

    def test_one_that_does_not_answer_has_no_numbers_and_no_zeros(self) -> None:
        found = looked_at(Sighting("clicks", driver(), error="no answer"))
        assert of(found, "agent_up") == 0
        assert of(found, "stream_state", state="running") == 1
        names = {name for name, _ in found}
        assert not names & {"sparkscale_ratio", "sparkscale_lag_seconds", "sparkscale_queries"}
        assert of(found, "executors", kind="registered") is None

    def test_one_that_was_never_started(self) -> None:
        found = looked_at(Sighting("clicks"))
        assert of(found, "stream_state", state="not started") == 1
        assert of(found, "agent_up") is None

    def test_one_that_has_failed_is_failed(self) -> None:
        found = looked_at(Sighting("clicks", driver(DriverState.FAILED, ended_at=1990.0)))
        assert of(found, "stream_state", state="failed") == 1
        assert of(found, "check_passed", check="running") == 0

    def test_an_answer_of_another_start_is_none(self) -> None:
        found = looked_at(Sighting("clicks", driver(epoch=2), status(epoch=1)))
        assert of(found, "driver_epoch") is None

    def test_a_stream_without_a_policy_has_no_bounds(self) -> None:
        found = looked_at(Sighting("clicks", driver(), status()), structured())
        assert of(found, "executors", kind="maximum") is None
        assert of(found, "executors", kind="registered") == 2

    def test_every_sample_has_the_labels_of_its_metric(self) -> None:
        by_name = {metric.name: metric for metric in ALL}
        said = status(
            batches=(batch(4.0),),
            limits=(Limit("s", QUERY, 5.0),),
            totals=(Totals(QUERY, 1, 0, 4000, 5),),
            queries=(Query(QUERY, active=True, state=QueryState(1, 2, 3), watermark=5.0),),
        )
        sighting = Sighting("clicks", driver(restarted_at=(1999.0,)), said)
        assessment = assess(scaled(max_executors=4), sighting, capabilities=CAPABILITIES, now=NOW)
        found = list(of_stream("c", assessment))
        assert len(found) > 20
        for each in found:
            assert tuple(sorted(each.labels)) == tuple(sorted(by_name[each.metric.name].labels))

    def test_of_many_queries_the_worst_have_series(self) -> None:
        batches = tuple(batch(0.01 * n, query=f"q{n}") for n in range(1, 3 * MOST_QUERIES))
        queries = tuple(Query(f"q{n}", active=True) for n in range(1, 3 * MOST_QUERIES))
        said = status(batches=batches, queries=queries)
        found = looked_at(Sighting("clicks", driver(), said), structured())
        ratios = [labels for name, labels in found if name == "sparkscale_ratio"]
        assert len(ratios) == MOST_QUERIES
        assert of(found, "ratio", query=f"q{3 * MOST_QUERIES - 1}") is not None

    @pytest.mark.parametrize("state", [DriverState.STARTING, DriverState.UNKNOWN])
    def test_whether_its_agent_answers_is_told_of_a_driver_that_runs(
        self, state: DriverState
    ) -> None:
        silent = Sighting("clicks", driver(state=state), error="no answer")
        assert of(looked_at(silent, structured()), "agent_up") is None

    @given(
        st.builds(
            Query,
            st.just(QUERY),
            st.just(True),
            interval_ms=st.none() | st.integers(1, 10**5),
            running_ms=st.none() | st.integers(0, 10**5),
            backlog_records=st.none() | st.integers(0, 9),
            behind_ms=st.none() | st.integers(0, 9),
        ),
        st.none() | st.integers(0, 5),
        st.booleans(),
    )
    def test_what_was_not_measured_has_no_series(
        self, query: Query, registered: int | None, any_batch: bool
    ) -> None:
        batches = (batch(4.0),) if any_batch else ()
        said = status(queries=(query,), registered=registered, requested=None, batches=batches)
        found = looked_at(Sighting("clicks", driver(), said))
        assert (of(found, "lag_seconds") is None) == (query.behind_ms is None)
        assert (of(found, "backlog_records") is None) == (query.backlog_records is None)
        assert of(found, "executors", kind="registered") == registered
        assert of(found, "executors", kind="requested") is None
        assert (of(found, "ratio") is None) == (not any_batch)
        assert (of(found, "input_records_per_second") is None) == (not any_batch)


class TestBudget:
    BUDGET = Budget(cores=20, groups={"reports": 8})

    def of(self, **sightings: Sighting) -> Found:
        made = [
            assess(
                structured(name, group="reports", executor_cores=2),
                *(sighting,),
                capabilities=CAPABILITIES,
                now=NOW,
            )
            for name, sighting in sightings.items()
        ]
        return named(of_budget("c", self.BUDGET, made))

    def test_what_is_asked_for_is_used(self) -> None:
        said = status(stream="a", requested=3)
        found = self.of(a=Sighting("a", driver(stream="a"), said), b=Sighting("b"))
        assert of(found, "budget_cores", group="reports", kind="used") == 6
        assert of(found, "budget_cores", group="reports", kind="allowed") == 8
        assert of(found, "budget_cores", group="", kind="used") == 6
        assert of(found, "budget_cores", group="", kind="allowed") == 20

    def test_what_is_not_known_of_one_is_not_known_in_all(self) -> None:
        silent = Sighting("b", driver(stream="b"), error="no answer")
        said = status(stream="a", requested=3)
        found = self.of(a=Sighting("a", driver(stream="a"), said), b=silent)
        assert of(found, "budget_cores", group="reports", kind="used") is None
        assert of(found, "budget_cores", group="", kind="allowed") == 20


class TestTallies:
    def test_an_ending_that_nobody_knows_is_another(self) -> None:
        tally = Tally()
        for ending in (*ENDINGS, "odd", "odder"):
            tally.add_rescale({"ending": ending, "seconds": 3.0})
        found = named(of_tallies("c", {"clicks": tally}))
        assert of(found, "rescales_total", ending="other") == 2
        assert of(found, "rescales_total", ending="reached") == 1
        assert of(found, "rescale_duration_seconds_count", ending="other") == 2
        assert of(found, "rescale_duration_seconds_bucket", ending="other", le="2") == 0
        assert of(found, "rescale_duration_seconds_bucket", ending="other", le="5") == 2
        assert of(found, "rescale_duration_seconds_sum", ending="reached") == 3

    def test_what_has_not_happened_yet_is_none_from_the_first(self) -> None:
        # Of a counter that begins with 1, Prometheus would not count that one.
        found = named(of_tallies("c", {"clicks": Tally()}))
        assert of(found, "rescales_total", ending="short") == 0
        assert of(found, "rescale_duration_seconds_count", ending="short") == 0
        assert of(found, "decisions_total", decision="change") == 0
        assert named(of_tallies("c", {})) == {}


def test_the_table_has_each_name_once_and_by_the_conventions() -> None:
    names = [metric.name for metric in ALL]
    assert len(set(names)) == len(names)
    for metric in ALL:
        assert metric.name.startswith("sparkscale_") and metric.help.endswith(".")
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric
        assert metric.labels[0] == "cluster"
        assert not set(metric.labels) & {"reason", "run", "batch", "epoch", "executor"}
