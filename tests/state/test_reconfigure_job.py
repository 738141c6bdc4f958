"""The operation in a run of Dagster: what it is told, what its page says, what it fails with."""

import dagster as dg
import pytest

from dagster_sparkscale.names import OPERATION_TAG, OUTCOME_TAG, READING_TAG, STORY, STREAM_TAG
from dagster_sparkscale.state import reconfigure_job
from tests.fakes import scaled
from tests.in_memory.cluster import World
from tests.state.saying import change, dies, kept_by, plays, runs, stateful, tells
from tests.watch.deployment import Deployment, failure_of

JOB = "reconfigure_state"


@pytest.fixture
def deployed() -> Deployment:
    """A code location with a stream that runs on 4 partitions, and one without state."""
    it = Deployment([stateful(), scaled("plain")])
    it.world.run(stateful(), queries=(kept_by(),), batch_seconds=1.0)
    return it


def told(result: dg.ExecuteInProcessResult) -> tuple[str, dict]:
    """The line and the numbers of the run's page."""
    assert result.success
    (event,) = result.get_asset_observation_events()
    observation = event.asset_observation_data.asset_observation
    assert observation.asset_key == dg.AssetKey("clicks")
    return observation.description, observation.metadata[STORY].value


def lines(deployed: Deployment, result: dg.ExecuteInProcessResult) -> list[str]:
    return [entry.user_message for entry in deployed.instance.all_logs(result.run_id)]


class TestDone:
    def carried_out(self, deployed: Deployment, **fields):
        rows = {
            "group_rows": (10,) * 15 + (30,),
            "partition_rows": (40, 40, 40, 60),
            "partition_rows_after": (20,) * 7 + (40,),
        }
        seconds = {"measuring": 2.0, "rewriting": 8.0}
        done = change(**{"seconds": seconds, "rows": 180} | rows | fields)
        plays(deployed.world, [tells(change(step="rewriting")), runs(8, done)])
        return deployed.by_hand(JOB, stream="clicks", reason="it grew")

    def test_the_page_of_the_run_has_what_there_was_and_is(self, deployed):
        line, story = told(self.carried_out(deployed))
        assert line.startswith(
            "query 'counts': changed, 4 -> 8 partitions; by a restart of the driver; the first "
        )
        assert (story["ending"], story["reason"], story["epoch"]) == ("reconfigured", "it grew", 2)
        assert (story["notes"], story["left_for_later"]) == ("none", [])
        assert story["estimated_seconds"] == 16.1
        assert story["seconds"] >= 0
        (query,) = story["queries"]
        assert (query["query"], query["outcome"]) == ("counts", "changed")
        assert (query["partitions_before"], query["partitions_after"]) == (4, 8)
        assert (query["rows"], query["key_groups"], query["key_groups_per_partition"]) == (
            180,
            16,
            2,
        )
        assert query["seconds"] == {"measuring": 2.0, "rewriting": 8.0}
        assert (query["skew_before"], query["skew_after"]) == (1.333, 1.778)
        assert query["skew_of_key_groups"] == 2.667
        assert query["rows_per_partition_before"] == [40, 40, 40, 60]
        assert query["rows_per_partition_after"] == [20] * 7 + [40]
        assert query["rows_per_key_group"] == [10] * 15 + [30]

    def test_a_query_that_stood_still_for_seconds_says_for_how_many(self, deployed):
        seconds = {"copying": 30.0, "replaying": 2.0, "verifying": 1.5}
        line, story = told(self.carried_out(deployed, way="beside the stream", seconds=seconds))
        assert "; query 'counts' stood still for 3.5 s, beside the stream; the first" in line
        assert story["queries"][0]["stood_still_seconds"] == 3.5
        (run,) = deployed.instance.get_runs()
        said = "4 \u2192 8, beside the stream, stood still 3.5 s (counts)"
        assert run.tags[OUTCOME_TAG] == said

    def test_by_a_restart_its_row_says_so_before_there_is_no_room(self, deployed):
        self.carried_out(deployed)
        (run,) = deployed.instance.get_runs()
        assert run.tags[OUTCOME_TAG].startswith("4 \u2192 8, by a restart, in ")
        assert run.tags[OUTCOME_TAG].endswith(" s (counts)")

    def test_what_was_not_measured_is_no_zero(self, deployed):
        nothing = dict.fromkeys(
            ("group_rows", "partition_rows", "partition_rows_after", "rows", "seconds")
        )
        _, story = told(self.carried_out(deployed, key_groups=None, **nothing))
        (query,) = story["queries"]
        for name in (
            *("rows", "seconds", "skew_before", "skew_after", "skew_of_key_groups"),
            *("key_groups_per_partition", "rows_per_partition_after", "rows_per_key_group"),
        ):
            assert query[name] is None, name

    def test_a_list_that_is_too_long_for_a_page_is_left_out_and_its_skew_is_not(self, deployed):
        many = (1,) * (reconfigure_job._MOST_LISTED + 1)
        _, story = told(self.carried_out(deployed, group_rows=many))
        (query,) = story["queries"]
        assert (query["rows_per_key_group"], query["skew_of_key_groups"]) == (None, 1)

    def test_its_log_has_the_plan_and_each_step(self, deployed):
        found = lines(deployed, self.carried_out(deployed))
        assert any(line.startswith("query 'counts': 4 -> 8 partitions, as decl") for line in found)
        assert "query 'counts': rewriting" in found

    def test_the_run_and_its_plan_are_known_by_its_id_and_its_tags(self, deployed):
        result = self.carried_out(deployed)
        (run,) = deployed.instance.get_runs()
        assert run.tags[OPERATION_TAG] == JOB and run.tags[STREAM_TAG] == "clicks"
        assert deployed.world.streams["clicks"].reconfigurations[0].id == result.run_id[:8]

    def test_what_went_on_after_the_driver_was_killed_is_noted(self, deployed):
        plays(
            deployed.world,
            [tells(change(step="closing")), dies(deployed.world)],
            [runs(8, change(reason="an earlier driver had finished it"))],
        )
        _, story = told(deployed.by_hand(JOB, stream="clicks"))
        assert story["notes"].startswith("driver 2 ended in the middle of it")
        assert story["epoch"] == 3


class TestDryRun:
    def test_says_what_would_be_done_and_what_it_may_cost_and_does_nothing(self, deployed):
        before = list(deployed.world.calls)
        result = deployed.by_hand(JOB, stream="clicks", dry_run=True, partitions=16)
        line, story = told(result)
        assert line.startswith(
            "would change query 'counts' from 4 to 16 partitions; nothing was changed; query"
        )
        assert "a rough estimate" in line
        assert (story["ending"], story["dry_run"], story["estimated_seconds"]) == (
            "dry run",
            True,
            17.9,
        )
        (query,) = story["queries"]
        assert (query["partitions_before"], query["partitions_after"]) == (4, 16)
        assert (query["rows"], query["why"]) == (1_000_000, "asked for")
        assert query["moves"].startswith("each partition splits into 4")
        assert deployed.world.calls == before

    def test_says_that_there_is_nothing_to_do(self, deployed):
        line, story = told(deployed.by_hand(JOB, stream="clicks", dry_run=True, partitions=4))
        assert line == "nothing to do: query 'counts' has 4 partitions already, as asked for"
        assert (story["ending"], story["dry_run"]) == ("nothing to do", True)

    def test_fails_with_what_a_run_would_be_refused_with(self, deployed):
        result = deployed.by_hand(JOB, stream="clicks", dry_run=True, partitions=5)
        assert failure_of(result).startswith("partitions = 5: must divide 16")
        tags = deployed.instance.get_run_by_id(result.run_id).tags
        assert tags[READING_TAG] == "true", "nothing has happened to the stream"


class TestFailures:
    def test_nothing_to_do_is_none(self, deployed):
        line, story = told(deployed.by_hand(JOB, stream="clicks", partitions=4))
        assert line.startswith("nothing to do: ")
        assert (story["ending"], story["dry_run"]) == ("nothing to do", False)
        assert deployed.world.streams["clicks"].driver.epoch == 1

    @pytest.mark.parametrize(
        ("config", "text"),
        [
            ({"partitions": 5}, "partitions = 5: must divide 16, the number of key groups"),
            ({"query": "other"}, "query = 'other': 'clicks' has none of that name; active"),
            ({"epoch": 9}, "'clicks': this was asked for driver 9, and driver 1 has come since;"),
            ({"decided_at": 1.0}, "stale: this was decided"),
        ],
    )
    def test_what_can_not_be_is_refused_and_stops_nothing(self, deployed, config, text):
        assert failure_of(deployed.by_hand(JOB, stream="clicks", **config)).startswith(text)
        assert deployed.world.streams["clicks"].driver.epoch == 1

    def test_a_stream_without_state(self, deployed):
        text = failure_of(deployed.by_hand(JOB, stream="plain"))
        assert text.startswith("'plain' declares no state: give it state=State(")

    @pytest.mark.parametrize("outcome", ["refused", "undone", "failed"])
    def test_what_was_not_done(self, deployed, outcome):
        why = change(outcome=outcome, reason="why not")
        plays(deployed.world, [runs(4, why)])
        text = failure_of(deployed.by_hand(JOB, stream="clicks"))
        assert text == (
            f"query 'counts': {outcome}: why not. Driver 2 runs query 'counts' with 4 partitions"
        )

    def test_out_of_time(self):
        stream = stateful(within=1e-9)
        deployed = Deployment([stream])
        deployed.world.run(stream, queries=(kept_by(),))
        plays(deployed.world, [tells(change(step="rewriting"))])
        text = failure_of(deployed.by_hand(JOB, stream="clicks"))
        assert text.startswith("out of time: driver 2 is running, and it is at the state of query")


def test_the_sensor_lets_a_stream_be_while_its_state_is_changed():
    stream = stateful().model_copy(update={"autoscale": scaled(max_executors=9).autoscale})
    deployed = Deployment([stream], World())
    kept = deployed.world.run(stream, queries=(), batch_seconds=25.0)
    kept.reconfigurations = (change(step="rewriting"),)
    tick = deployed.tick()
    assert tick.requests == []
    assert tick.decided() == "hold: reconfiguring the state of query 'counts': rewriting"
    assert "batches_completing" not in tick.checks()
    assert tick.checks()["running"]
