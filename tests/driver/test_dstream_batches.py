"""What a batch of DStreams took, by a clock that may be set."""

from typing import Any

import pytest

from dagster_sparkscale.driver.batches.dstreams import batch_of, inputs_of
from dagster_sparkscale.driver.batches.reports import Input

AT = 1_000_000


def told(submitted: int, started: int, ended: int, **operation: str) -> dict[str, Any]:
    """Spark's JSON of a completed batch."""
    return {
        "submissionTime": submitted,
        "processingStartTime": started,
        "processingEndTime": ended,
        "streamIdToInputInfo": {"0": {"numRecords": 7}},
        "outputOperations": {"0": operation},
        "batchTime": {"millis": AT},
    }


@pytest.mark.parametrize(
    ("times", "processing", "scheduling"),
    [
        ((AT, AT + 10, AT + 510), 500, 10),
        ((AT, AT, AT), 0, 0),
        ((AT, AT - 40_000, AT - 39_500), 500, None),  # the clock was set back while it waited
    ],
)
def test_its_times(times: tuple[int, int, int], processing: int, scheduling: int | None) -> None:
    batch = batch_of(told(*times))
    assert batch is not None and not batch.failed
    assert (batch.processing_ms, batch.scheduling_ms) == (processing, scheduling)
    assert (batch.records, batch.batch_id) == (7, AT)


def test_one_in_which_the_clock_was_set_back_says_nothing_unless_it_failed() -> None:
    times = (AT, AT + 10, AT - 35_000)
    assert batch_of(told(*times)) is None
    failed = batch_of(told(*times, failureReason="disk full"))
    assert failed is not None and failed.failed
    assert failed.processing_ms == 0


def test_what_its_sources_gave_it() -> None:
    told = {
        "0": {"inputStreamId": 0, "numRecords": 7, "metadata": {}},
        "1": {"numRecords": 0},
        "2": {"numRecords": 5, "metadata": {"source": "clicks", "limit": 9}},
        "3": {"numRecords": 5, "metadata": {"source": "clicks", "limit": None}},
        "4": {"numRecords": 5, "metadata": {"Description": "files"}},
        "5": {"numRecords": 5, "metadata": {"source": ["no name"], "limit": 9}},
        "6": {"numRecords": 5, "metadata": {"source": "clicks", "limit": True}},
    }
    assert inputs_of({"streamIdToInputInfo": told}, lambda stream: stream < 2) == (
        Input("receiver-0", 7, receiver=True),
        Input("receiver-1", 0, receiver=True),
        Input("clicks", 5, 9, tells=True),
        Input("clicks", 5, tells=True),
        Input(None, 5),
        Input(None, 5),
        Input("clicks", 5, tells=True),
    )
