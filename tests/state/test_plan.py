"""What a change of state partitions would be, or why there is none."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.driver.state.plans import StatePlan, plan_of
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.state.plan import Aim, Asked, Barred, Change, Settled, aim
from tests.fakes import QUERY, batch, driver, dstream, status, structured
from tests.state.saying import change, kept_by, stateful


def aimed(
    declared=None, *queries: Query, asked: Asked | None = None, state=DriverState.RUNNING, **fields
) -> Aim:
    """The aim for a stream whose driver says this; one query in 4 partitions unless it is said."""
    says = {"spark_version": "4.3.0", "queries": queries or (kept_by(),)}
    seen = status(**says | fields)
    return aim(declared or stateful(), driver(state), seen, asked or Asked(), id="p1")


def refused(*args, **fields) -> str:
    found = aimed(*args, **fields)
    assert isinstance(found, Barred), found
    return found.why


def changed(*args, **fields) -> Change:
    found = aimed(*args, **fields)
    assert isinstance(found, Change), found
    return found


def settled(*args, **fields) -> str:
    found = aimed(*args, **fields)
    assert isinstance(found, Settled), found
    return found.why


class TestAChange:
    def test_is_to_what_is_declared(self):
        found = changed()
        assert found.plan == StatePlan("p1", 8, 16, False, (QUERY,))
        assert plan_of(found.plan.to_json()) == found.plan
        (one,) = found.queries
        assert (one.query, one.before, one.after, one.why) == (QUERY, 4, 8, "declared")
        assert (one.rows, one.bytes) == (1_000_000, 64 * 1024**2)
        assert one.moves == "each partition splits into 2; 50% of the key groups move"
        assert found.left == ()

    def test_is_to_what_is_asked_for_whatever_is_declared(self):
        found = changed(asked=Asked(partitions=2))
        assert found.plan.partitions == 2
        assert found.queries[0].why == "asked for"
        assert found.queries[0].moves.startswith("2 partitions at a time merge into one")

    def test_is_to_what_is_recommended_where_neither_is_said(self):
        stream = stateful(partitions=None, rows_per_partition=100_000)
        found = changed(stream)
        assert found.plan.partitions == 16
        assert found.queries[0].why.startswith("recommended: 1,000,000 rows fill 10 partitions")

    def test_is_recommended_by_memory_too(self):
        found = changed(stateful(partitions=None), kept_by(bytes=6 * 1024**3, partitions=1))
        assert "6,144 MiB fill 12 partitions" in found.queries[0].why
        assert found.queries[0].moves.startswith("each partition splits into 16")

    def test_is_recommended_by_the_executors_and_the_load_that_there_are(self):
        policy = RatioPolicy(max_executors=16)
        stream = stateful(partitions=None).model_copy(update={"autoscale": policy})
        batches = (batch(9.5, query=QUERY),)
        found = changed(stream, requested=10, batches=batches)
        assert found.plan.partitions == 16
        assert "16 executors of 1 core run 16 tasks at a time" in found.queries[0].why
        assert "R is 0.95" in found.queries[0].why
        assert isinstance(aimed(stateful(partitions=None), requested=2), Settled)

    def test_may_move_every_key_where_that_is_declared(self):
        found = changed(stateful(plain_hash=True), asked=Asked(partitions=5))
        assert found.plan == StatePlan("p1", 5, 16, True, (QUERY,))
        assert found.queries[0].moves.startswith("every key may move")

    def test_is_fine_for_a_query_whose_key_groups_are_not_remembered_yet(self):
        assert changed(None, kept_by(key_groups=None)).plan.key_groups == 16

    def test_is_fine_by_the_whole_name_of_the_provider(self):
        name = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        assert changed(None, kept_by(provider=name))

    def test_says_what_it_may_cost_and_that_this_is_rough(self):
        found = changed()
        assert found.seconds == 20
        assert found.lines == (
            "query 'counts': 4 -> 8 partitions, as declared; 1,000,000 rows; each partition "
            "splits into 2; 50% of the key groups move",
            "the stream stands still for about 20 s, and for its restart: a rough estimate, for "
            "it depends on the cluster and on the rows",
        )

    def test_goes_by_what_one_of_the_same_query_took_before(self):
        before = change(seconds={"rewriting": 7.0}, rows=1_000_000)
        assert changed(reconfigurations=(before,)).seconds == 7
        other = replace(before, query="other")
        assert changed(reconfigurations=(other,)).seconds == 20

    def test_whose_rows_are_not_known_costs_nobody_knows_what(self):
        found = changed(None, kept_by(rows=None))
        assert (found.seconds, found.queries[0].rows) == (None, None)
        first, last = found.lines
        assert "; unknown rows;" in first
        assert last.startswith("how long it takes can't be estimated")


class TestSeveralQueries:
    def test_that_should_all_have_one_number_get_it_in_one_run(self):
        found = changed(None, kept_by("a"), kept_by("b", partitions=8), kept_by("c", partitions=2))
        assert found.plan.queries == ("a", "c")
        assert [(each.query, each.before) for each in found.queries] == [("a", 4), ("c", 2)]
        assert found.seconds == 40

    def test_of_which_the_rows_of_one_are_not_known_cost_nobody_knows_what(self):
        assert changed(None, kept_by("a"), kept_by("c", rows=None)).seconds is None

    def test_one_is_meant_by_its_name(self):
        found = changed(None, kept_by("a"), kept_by("b"), asked=Asked(query="b"))
        assert found.plan.queries == ("b",)
        assert [each.query for each in found.queries] == ["b"]

    def test_that_should_have_different_numbers_are_changed_one_by_one_the_largest_first(self):
        stream = stateful(partitions=None, rows_per_partition=100_000)
        queries = [
            kept_by("a_few", rows=800_000, partitions=2),
            kept_by("large", rows=1_600_000, partitions=2),
            kept_by("fine", rows=10, partitions=1),
        ]
        found = changed(stream, *queries, requested=1)
        assert (found.plan.queries, found.plan.partitions) == (("large",), 16)
        assert [each.query for each in found.queries] == ["large"]
        assert [(each.query, each.after) for each in found.left] == [("a_few", 8)]
        assert found.lines[-1] == (
            "query 'a_few' is left at 2 partitions for now, and should have 8: run this again for "
            "it"
        )

    def test_one_that_is_fine_with_another_number_is_left_alone(self):
        stream = stateful(partitions=None, rows_per_partition=100_000)
        queries = kept_by("fine", rows=10, partitions=1), kept_by("a", rows=400_000, partitions=1)
        found = changed(stream, *queries, requested=1)
        assert (found.plan.queries, found.plan.partitions, found.left) == (("a",), 4, ())

    def test_those_without_state_are_not_meant(self):
        found = changed(None, Query("plain", active=True), kept_by())
        assert found.plan.queries == (QUERY,)

    def test_those_of_one_number_are_changed_beside_one_that_should_have_another(self):
        stream = stateful(partitions=None, rows_per_partition=100_000)
        queries = [
            kept_by("large", rows=1_600_000, partitions=2),
            kept_by("a_few", rows=800_000, partitions=2),
            kept_by("as_large", rows=1_500_000, partitions=4),
        ]
        found = changed(stream, *queries, requested=1)
        assert found.plan == StatePlan("p1", 16, 16, False, ("large", "as_large"))
        assert [(each.query, each.after) for each in found.left] == [("a_few", 8)]

    @pytest.mark.parametrize(
        ("other", "why"),
        [
            (kept_by("total", unchangeable="it has no keys"), "query 'total': it has no keys"),
            (kept_by("total", key_groups=32), "state.key_groups = 16: the checkpoint of query"),
            (kept_by("total", partitions=None), "query 'total' has not told its partitions: try"),
            (Query("total", active=True, cold=True), "query 'total' has not told yet whether it"),
        ],
    )
    def test_one_that_can_not_be_changed_bars_no_other(self, other, why):
        found = changed(None, kept_by(), other)
        assert found.plan.queries == (QUERY,)
        assert [each.query for each in found.queries] == [QUERY]
        assert any(line.startswith(f"left as it is: {why}") for line in found.lines)
        assert refused(None, kept_by(partitions=8), other).startswith(why)
        assert refused(None, kept_by(), other, asked=Asked(query="total")).startswith(why)

    def test_one_that_went_wrong_bars_no_other_in_a_window_either(self):
        last = change(query="total", outcome="refused", reason="it has no keys")
        total = kept_by("total", last=last)
        found = changed(None, total, kept_by(), asked=Asked(again=False))
        assert found.plan.queries == (QUERY,)
        assert "query 'total': the last try, to 8 partitions, was refused" in found.lines[-1]
        assert "the last try" in refused(
            None, total, kept_by(partitions=8), asked=Asked(again=False)
        )


class TestNothingToDo:
    def test_where_it_has_the_number(self):
        told = settled(None, kept_by(partitions=8))
        assert told == "query 'counts' has 8 partitions already, as declared"
        assert settled(asked=Asked(partitions=4)).endswith("has 4 partitions already, as asked for")

    def test_where_nothing_asks_for_another(self):
        told = settled(stateful(partitions=None))
        assert told.startswith("query 'counts' has 4 partitions already, as recommended: no change")

    def test_also_with_a_number_that_none_would_be_given(self):
        """It was taken over with it."""
        assert settled(None, kept_by(partitions=5), asked=Asked(partitions=5))


class TestRefusals:
    def test_a_stream_that_declares_no_state(self):
        assert refused(structured()).startswith(
            "'clicks' declares no state: give it state=State(key_groups=128), load the code, and"
        )
        assert refused(dstream()).startswith("'clicks' is a DStreams application")

    @pytest.mark.parametrize("state", [DriverState.STOPPED, DriverState.FAILED])
    def test_a_driver_that_does_not_run(self, state):
        told = refused(state=state)
        assert told.startswith(f"'clicks' is {state.value}: materialize its asset to start it")

    def test_a_stream_that_was_never_started(self):
        found = aim(stateful(), None, None, Asked(), id="p1")
        assert isinstance(found, Barred)
        assert found.why.startswith("'clicks' is not started: materialize its asset")

    @pytest.mark.parametrize("state", [DriverState.STARTING, DriverState.UNKNOWN])
    def test_a_driver_of_which_that_is_not_known(self, state):
        assert "has not answered: try again when it does" in refused(state=state)

    def test_an_agent_that_is_silent(self):
        found = aim(stateful(), driver(), None, Asked(), id="p1")
        assert isinstance(found, Barred)
        assert found.why == (
            "'clicks': driver 1 is running, and its agent has not answered: try again when it does"
        )

    @pytest.mark.parametrize("phase", ["starting", "stopping", "ended"])
    def test_a_driver_that_comes_or_goes(self, phase):
        assert refused(phase=phase) == f"'clicks': its driver is {phase}: try again when it runs"

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
        assert isinstance(aimed(spark_version="4.2.0"), Change)

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
        assert isinstance(aimed(None, kept_by(), cold, asked=Asked(query=QUERY)), Change)
        assert isinstance(aimed(None, kept_by(), replace(cold, active=False)), Change)

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
    if not isinstance(found, Change):
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


class TestAMaintenanceWindow:
    """What did not go well is not tried again by itself, with a restart for nothing each time."""

    def tried(self, again: bool, **last) -> Aim:
        fields = {"outcome": "refused", "reason": "it has no keys", **last}
        return aimed(None, kept_by(last=change(**fields)), asked=Asked(8, again=again))

    def test_it_is_refused_with_what_it_came_to(self):
        tried = self.tried(again=False)
        assert isinstance(tried, Barred)
        assert "the last try, to 8 partitions, was refused: it has no keys" in tried.why
        assert isinstance(self.tried(again=False, outcome="undone"), Barred)

    def test_a_person_may_try_again(self):
        assert isinstance(self.tried(again=True), Change)

    def test_another_number_is_another_try(self):
        assert isinstance(self.tried(again=False, after=16), Change)
        assert isinstance(self.tried(again=False, outcome="changed"), Change)


class TestWhatIsDeclaredOtherwise:
    """A window changes back what a person has asked for."""

    def last_line(self, asked: int | None, **declared) -> str:
        return changed(stateful(**declared), asked=Asked(asked)).lines[-1]

    def test_is_said_before_anything_is_done(self):
        assert self.last_line(16, maintenance="0 3 * * SUN") == (
            "declared is 8: the window at '0 3 * * SUN' (UTC) changes it back; declare "
            "partitions=16 to keep it"
        )
        declared = {"partitions": None, "timezone": "Europe/Berlin"}
        assert self.last_line(16, maintenance="0 3 * * SUN", **declared) == (
            "no partitions are declared: the window at '0 3 * * SUN' (Europe/Berlin) gives it "
            "those that are recommended then"
        )

    @pytest.mark.parametrize(("partitions", "window"), [(16, None), (8, "0 3 * * SUN")])
    def test_is_not_where_nothing_changes_it_back(self, partitions, window):
        assert self.last_line(partitions, maintenance=window).startswith("the stream stands still")
        assert self.last_line(None, maintenance=window).startswith("the stream stands still")
