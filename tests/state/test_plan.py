"""What a change of state partitions would be, or why there is none."""

from dataclasses import replace

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.driver.state.plans import StatePlan, plan_of
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.state.partition_change import PartitionChange
from dagster_sparkscale.state.plan import Aim, Asked, Barred, Settled
from tests.fakes import QUERY, batch
from tests.state.planning import aimed, changed, refused, settled
from tests.state.saying import change, kept_by, stateful


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
        assert found.seconds == pytest.approx(10 + 4 + 2.1)
        assert found.lines == (
            "query 'counts': 4 -> 8 partitions, as declared; 1,000,000 rows; each partition "
            "splits into 2; 50% of the key groups move",
            "by a restart of the driver: the driver is of an older release, which changes state at "
            "its start alone",
            "the stream stands still for about 16 s, and for its restart: a rough estimate, for "
            "it depends on the cluster and on the rows",
        )

    def test_goes_by_what_one_of_the_same_query_took_before(self):
        before = change(seconds={"rewriting": 7.0}, rows=1_000_000)
        assert changed(reconfigurations=(before,)).seconds == 7
        other = replace(before, query="other")
        assert changed(reconfigurations=(other,)).seconds == pytest.approx(16.1)

    def test_whose_rows_are_not_known_costs_nobody_knows_what(self):
        found = changed(None, kept_by(rows=None))
        assert (found.seconds, found.queries[0].rows) == (None, None)
        first, _, last = found.lines
        assert "; unknown rows;" in first
        assert last.startswith("how long it takes can't be estimated")

    def test_whose_rows_are_not_told_since_the_start_costs_what_it_had_when_it_was_changed(self):
        query = kept_by(rows=None, last=change(rows=5_000_000))
        first, *_, last = changed(None, query, in_place={"counts": None}).lines
        assert "; rows not told yet, 5,000,000 when it was last changed; " in first
        assert "stands still for about" in last


class TestSeveralQueries:
    def test_that_should_all_have_one_number_get_it_in_one_run(self):
        found = changed(None, kept_by("a"), kept_by("b", partitions=8), kept_by("c", partitions=2))
        assert found.plan.queries == ("a", "c")
        assert [(each.query, each.before) for each in found.queries] == [("a", 4), ("c", 2)]
        assert found.seconds == pytest.approx(28 + 2.1 + 1.95)

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
        assert told.startswith("query 'counts' has 4 partitions already, as recommended: 4 stays: ")

    def test_also_with_a_number_that_none_would_be_given(self):
        """It was taken over with it."""
        assert settled(None, kept_by(partitions=5), asked=Asked(partitions=5))


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
        assert isinstance(self.tried(again=True), PartitionChange)

    def test_another_number_is_another_try(self):
        assert isinstance(self.tried(again=False, after=16), PartitionChange)
        assert isinstance(self.tried(again=False, outcome="changed"), PartitionChange)


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

    def test_is_said_too_where_the_next_one_without_a_number_goes_back(self):
        assert self.last_line(16) == (
            "declared is 8: a reconfiguration without a number goes back to it; declare "
            "partitions=16 to keep it"
        )

    @pytest.mark.parametrize(
        ("partitions", "window", "declared"),
        [(8, None, 8), (8, "0 3 * * SUN", 8), (16, None, None)],
    )
    def test_is_not_where_nothing_changes_it_back(self, partitions, window, declared):
        for asked in (partitions, None) if declared else (partitions,):
            line = self.last_line(asked, maintenance=window, partitions=declared)
            assert line.startswith("the stream stands still")
