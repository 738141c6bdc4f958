"""Why there is no change of state partitions, and that what is not known bars it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.realtime import RealTime
from dagster_sparkscale.driver.state.plans import plan_of
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.state.partition_change import PartitionChange
from dagster_sparkscale.state.plan import Asked, Barred, Settled, aim
from tests.fakes import QUERY, batch, driver, dstream, structured
from tests.state.planning import aimed, changed, refused
from tests.state.saying import change, kept_by, stateful


class TestRefusals:
    def test_a_stream_that_declares_no_state(self):
        """Its checkpoint may have key groups."""
        assert refused(structured()) == (
            "'clicks' declares no state: give it state=State(key_groups=16), load the code, and "
            "restart the stream, if it was started without"
        )
        assert refused(dstream()).startswith("'clicks' is a DStreams application")

    @pytest.mark.parametrize("state", [DriverState.STOPPED, DriverState.FAILED])
    def test_a_driver_that_does_not_run(self, state):
        told = refused(state=state)
        assert told.startswith(f"'clicks' is {state.value}: materialize its asset to start it")

    def test_a_stream_that_was_never_started(self):
        found = aim(stateful(), None, None, Asked(), id="p1", now=2000.0)
        assert isinstance(found, Barred)
        assert found.why.startswith("'clicks' is not started: materialize its asset")

    @pytest.mark.parametrize("state", [DriverState.STARTING, DriverState.UNKNOWN])
    def test_a_driver_of_which_that_is_not_known(self, state):
        assert "has not answered: try again when it does" in refused(state=state)

    def test_an_agent_that_is_silent(self):
        found = aim(stateful(), driver(), None, Asked(), id="p1", now=2000.0)
        assert isinstance(found, Barred)
        assert found.why == (
            "'clicks': driver 1 is running, and its agent has not answered: try again when it does"
        )

    @pytest.mark.parametrize("phase", ["starting", "stopping", "ended"])
    def test_a_driver_that_comes_or_goes(self, phase):
        assert refused(phase=phase) == f"'clicks': its driver is {phase}: try again when it runs"

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            (
                {"autoscale": RatioPolicy(max_executors=8)},
                "partitions = 8: the real-time query 'counts' would need 9 task slots at once, or "
                "more, and 8 executors have 8: raise max_executors first",
            ),
            (
                {"realtime": RealTime(slots=6)},
                "partitions = 8: the real-time query 'counts' would need 9 task slots at once, or "
                "more, and realtime.slots = 6: declare as many first, and restart the stream",
            ),
        ],
    )
    def test_a_real_time_query_without_slots_for_it(self, fields, why):
        live = replace(kept_by(), trigger="real time")
        assert refused(stateful().model_copy(update=fields), live) == why
        enough = {"realtime": RealTime(slots=9)}
        assert changed(stateful().model_copy(update=enough), live).plan.partitions == 8

    def test_a_change_in_progress(self):
        told = refused(reconfigurations=(change(step="rewriting"),), phase="starting")
        assert told == (
            "reconfiguring the state of query 'counts': rewriting: wait until it is over"
        )

    def test_of_a_driver_of_an_older_release_nothing_is_claimed(self):
        told = refused(reconfigurations=None, queries=(Query("plain", active=True),))
        assert "was started by an older release" in told and "restart the stream" in told

    @pytest.mark.parametrize(
        ("version", "text"),
        [
            (None, "its driver has not told its release of Spark: try again in a minute"),
            ("4.1.9", "needs Spark 4.2 or newer; this is Spark 4.1.9"),
        ],
    )
    def test_a_spark_that_can_not(self, version, text):
        assert refused(spark_version=version).endswith(text)
        assert isinstance(aimed(spark_version="4.2.0"), PartitionChange)

    def test_no_query_at_all(self):
        ended = replace(kept_by(), active=False)
        for queries in ((), (ended,)):
            assert refused(queries=queries).startswith("no query is active: try again when one has")

    def test_a_name_that_there_is_not(self):
        told = refused(None, kept_by("a"), kept_by("b"), asked=Asked(query="c"))
        assert told == "query = 'c': 'clicks' has none of that name; active: 'a', 'b'"

    def test_one_that_has_not_told_yet_whether_it_keeps_state(self):
        cold = Query("late", active=True, cold=True)
        text = "query 'late' has not told yet whether it keeps state: try again when it has"
        assert refused(None, cold).startswith(text)
        assert refused(None, kept_by(partitions=8), cold).startswith(text)
        assert isinstance(aimed(None, kept_by(), cold, asked=Asked(query=QUERY)), PartitionChange)
        assert isinstance(aimed(None, kept_by(), replace(cold, active=False)), PartitionChange)

    def test_one_that_is_known_to_keep_none_before_its_first_batch(self):
        """As where it has had no input since the start."""
        plain = Query("plain", active=True, cold=True, stateless=True)
        assert isinstance(aimed(None, kept_by(partitions=8), plain), Settled)
        assert changed(None, kept_by(), plain).barred == ()
        assert refused(None, plain, asked=Asked(query="plain")) == (
            "'clicks': query 'plain' keeps no state: there is nothing to reconfigure"
        )

    def test_one_that_keeps_none(self):
        plain = Query("plain", active=True)
        assert refused(None, plain) == (
            "'clicks': none of its queries keeps state: there is nothing to reconfigure"
        )
        assert refused(None, plain, kept_by(), asked=Asked(query="plain")) == (
            "'clicks': query 'plain' keeps no state: there is nothing to reconfigure"
        )

    def test_what_its_driver_says_can_not_be_changed(self):
        why = "its state is kept by HDFSBackedStateStoreProvider, whose partitions Spark can't"
        assert refused(None, kept_by(unchangeable=why)) == f"query 'counts': {why}"

    def test_a_provider_that_can_not_also_by_a_driver_that_does_not_say_so(self):
        """One of an older release, started when no state was declared, tells the provider alone."""
        told = refused(None, kept_by(provider="HDFSBackedStateStoreProvider"))
        assert told.startswith(
            "query 'counts': its state is kept by HDFSBackedStateStoreProvider, whose partitions"
        )

    @pytest.mark.parametrize("running", [False, True])
    def test_batches_that_take_as_long_as_all_of_it_may(self, running):
        """The one in progress would be cut off, and the change then refused."""
        fields: dict[str, Any] = {"batches": (batch(100, query=QUERY), batch(60, query=QUERY))}
        if running:
            counts = replace(kept_by(), running_ms=100_000)
            fields = {"batches": (), "queries": (counts,)}
        assert refused(stateful(within=100), **fields) == (
            "state.within = 100 s: its last batches took up to 100 s, and the one in progress "
            "would be cut off: declare more than twice as much"
        )
        assert changed(stateful(within=101), **fields).longest == 100
        of_one_that_ended = batch(500, query="ended")
        assert changed(stateful(within=101), batches=(of_one_that_ended,)).longest == 0

    def test_a_provider_that_is_not_known(self):
        assert "has not told by which provider" in refused(None, kept_by(provider=None))

    def test_partitions_that_are_not_known(self):
        assert refused(None, kept_by(partitions=None)) == (
            "query 'counts' has not told its partitions: try again after its next batch"
        )

    def test_other_key_groups_than_the_checkpoint_has(self):
        assert refused(None, kept_by(key_groups=32)) == (
            "state.key_groups = 16: the checkpoint of query 'counts' has 32, and their number is "
            "fixed once the query has run: declare key_groups=32, or begin with a new checkpoint"
        )

    @pytest.mark.parametrize(
        ("partitions", "text"),
        [
            (5, "must divide 16, the number of key groups, as 4 and 8 do"),
            (17, "must be at most 16"),
            (0, "must be a whole number of at least 1"),
            (-1, "must be a whole number of at least 1"),
        ],
    )
    def test_a_number_that_there_can_not_be(self, partitions, text):
        told = refused(asked=Asked(partitions=partitions))
        assert told.startswith(f"partitions = {partitions}: {text}")

    def test_rows_that_are_not_known_where_they_would_decide(self):
        told = refused(stateful(partitions=None), kept_by(rows=None), requested=2)
        assert told.startswith("query 'counts' has not told the rows of its state, so nothing can")
        # What is known is reason enough.
        assert changed(stateful(partitions=None), kept_by(rows=None), requested=8)


numbers = st.none() | st.integers(0, 10**9)
queries = st.lists(
    st.builds(
        lambda name, active, cold, state: replace(
            kept_by(name, **state) if state is not None else Query(name, True),
            active=active,
            cold=cold,
        ),
        st.sampled_from(["a", "b", "c", "d"]),
        st.booleans(),
        st.booleans(),
        st.none()
        | st.fixed_dictionaries(
            {
                "rows": numbers,
                "bytes": numbers,
                "partitions": st.none() | st.integers(1, 40),
                "key_groups": st.none() | st.sampled_from([16, 16, 16, 32]),
                "provider": st.sampled_from(["RocksDBStateStoreProvider"] * 3 + [None]),
                "unchangeable": st.sampled_from([None, None, None, "it has no keys"]),
            }
        ),
    ),
    max_size=4,
    unique_by=lambda query: query.name,
)


@given(
    queries,
    st.none() | st.integers(-1, 20),
    st.none() | st.sampled_from(["a", "b"]),
    st.none() | st.sampled_from([1, 8, 16]),
    st.booleans(),
    st.none() | st.integers(1, 50),
)
def test_whatever_a_driver_says_what_is_not_known_never_counts_as_fine(
    told, partitions, query, declared, plain, requested
):
    stream = stateful(partitions=declared, plain_hash=plain)
    asked = Asked(partitions, query)
    found = aimed(stream, asked=asked, queries=tuple(told), requested=requested)
    if not isinstance(found, PartitionChange):
        assert found.why
        return
    active = {each.name: each for each in told if each.active}
    meant = [each for each in active.values() if query in (None, each.name)]
    for each in (*found.queries, *found.left):
        state = active[each.query].state
        assert state is not None
        assert state.provider is not None and state.unchangeable is None
        assert state.partitions == each.before
        assert state.key_groups in (None, 16)
        assert each.before != each.after
        assert plain or 16 % each.after == 0
    assert {each.after for each in found.queries} == {found.plan.partitions}
    assert found.plan.queries == tuple(each.query for each in found.queries)
    settled = [
        each.name
        for each in meant
        if each.state is not None and each.state.partitions == found.plan.partitions
    ]
    assert not set(settled) & set(found.plan.queries)
    assert plan_of(found.plan.to_json()) == found.plan
    assert found.lines
