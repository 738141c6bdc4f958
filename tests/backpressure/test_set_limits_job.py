"""The operation in a run of Dagster: what it is told, what its page says, what it fails with."""

import dagster as dg
import pytest

from dagster_sparkscale.declare.limits import SourceLimits
from dagster_sparkscale.names import STORY
from dagster_sparkscale.observe.status import Limit
from tests.backpressure.test_set_limits import CLICKS, STREAM, heeds
from tests.watch.deployment import Deployment, failure_of

JOB = "set_limits"


@pytest.fixture
def deployed() -> Deployment:
    it = Deployment([STREAM])
    it.world.run(STREAM, limits=(CLICKS,))
    it.world.on_look = heeds
    return it


def told(result: dg.ExecuteInProcessResult) -> tuple[str, dict]:
    """The line and the numbers of the run's page."""
    assert result.success
    (event,) = result.get_asset_observation_events()
    observation = event.asset_observation_data.asset_observation
    return observation.description, observation.metadata[STORY].value


def test_the_page_of_the_run_has_what_there_was_and_is(deployed):
    line, story = told(deployed.by_hand(JOB, stream="clicks", rate=50.0, reason="a bad day"))
    assert line == "clicks: not set -> maxRate 50: heeded"
    assert (story["source"], story["reason"], story["epoch"]) == ("clicks", "a bad day", 1)
    assert (story["set_before"], story["set_after"]) == ({}, {"clicks": {"maxRate": 50}})
    assert story["limits_before"][0]["records_per_second"] is None
    assert story["limits_after"] == [
        {
            "source": "clicks",
            "records_per_second": 50,
            "by": "set",
            "estimate": None,
            "heeded": True,
        }
    ]
    assert story["notes"] == "none"


def test_what_is_taken_away_and_what_is_only_looked_at(deployed):
    assert told(deployed.by_hand(JOB, stream="clicks"))[0] == "clicks: no limit"
    deployed.by_hand(JOB, stream="clicks", records=7, wait_seconds=0.0)
    line, _ = told(deployed.by_hand(JOB, stream="clicks", none=True, source="clicks"))
    assert line == "clicks: maxRecordsPerTrigger 7 -> not set: removed"
    line, _ = told(deployed.by_hand(JOB, stream="clicks", none=True))
    assert line == "all limits that were set are taken away"
    deployed.world.on_look = lambda kept: setattr(kept, "limits", ())
    assert told(deployed.by_hand(JOB, stream="clicks"))[0].startswith("no source has told yet")


def test_what_can_t_be_is_a_failure_that_reads_well(deployed):
    failed = deployed.by_hand(JOB, stream="clicks", rate=50.0, source="cliks")
    assert failure_of(failed) == ("source = 'cliks': there is no such source; there is 'clicks'")


def test_what_is_read_once_per_start_is_told_of_too():
    source = {"clicks": SourceLimits(max_offsets_per_trigger=2000)}
    stream = STREAM.model_copy(update={"limits": source})
    it = Deployment([stream])
    it.world.run(stream, limits=(Limit("clicks", CLICKS.query, 412.1964, "estimator"),))
    line, story = told(it.by_hand(JOB, stream="clicks"))
    assert line == (
        "clicks: 412 records/s (estimator); read at a start: clicks.maxOffsetsPerTrigger 2000"
    )
    assert story["read_at_a_start"] == {"clicks.maxOffsetsPerTrigger": "2000"}
