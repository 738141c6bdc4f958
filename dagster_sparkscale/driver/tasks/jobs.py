"""The jobs of Spark that have ended since the last look, and whether they are all known. Pure."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

LATE = 10.0
"""Seconds that a job may be listed after its end: a queue of events tells the store of it."""
MOST_JOBS = 500
"""Jobs that are read at most in a look; each is some 700 bytes."""
RECEIVERS = "Streaming job running receiver"
"""Begins the description of a job that is no batch, but lasts as long as a receiver."""

Job = Mapping[str, Any]
"""`org.apache.spark.status.api.v1.JobData` of a job that has ended."""


def new(listed: Sequence[Job], known: Container[int]) -> list[Job]:
    """The jobs of batches that were not read yet.

    Args:
        known: ids of those that were.
    """
    return [
        each
        for each in listed
        if each["jobId"] not in known
        and each["submissionTime"] is not None
        and not (each["description"] or "").startswith(RECEIVERS)
    ]


def are_all(listed: Sequence[Job], since: int, retained: int) -> bool:
    """Whether no job is missing that has ended since a moment. Spark forgets first what has ended
    first: where a job from before is there, none from after it is gone.

    Args:
        listed: what the store has, from some time before on, `MOST_JOBS` of the last ones at most.
        since: milliseconds since the epoch.
        retained: spark.ui.retainedJobs; of more, Spark forgets a tenth at a time.
    """
    if any(each["completionTime"] < since for each in listed):
        return True
    return len(listed) < min(MOST_JOBS, retained // 2)
