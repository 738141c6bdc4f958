"""The restart by which a stream gets another number of receivers, or keeps the one that it had. No
Dagster here."""

from dataclasses import dataclass
from typing import NoReturn

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.requests import NotDone
from dagster_sparkscale.declare.receivers import ReceiverCount
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.in_force.receiver_counts import changed, put_back
from dagster_sparkscale.lifecycle import trial
from dagster_sparkscale.lifecycle.reconcile import Outcome, Start, reconcile
from dagster_sparkscale.receivers.count import CHANGED, KEPT
from dagster_sparkscale.receivers.recount_follow import NeverRan, Recounted
from dagster_sparkscale.remedy import WithRemedy


@dataclass(frozen=True)
class RecountRequest:
    """What is wanted of a stream's receivers."""

    receivers: int
    accept_loss: bool = False
    """Whether the number is changed also where what was received was not all processed."""
    wait: float = 300.0
    """Seconds to wait for all receivers to run."""


def restart(
    cluster: ClusterManager,
    stream: DStream,
    policy: ReceiverCount,
    request: RecountRequest,
    story: Recounted,
    driver: Driver,
    requester: Requester,
) -> tuple[Outcome, Record]:
    """Have a driver with the new number come, once the one before has ended drained. What came of
    that, and what was remembered before.

    Raises:
        NotDone: the driver was not drained, and the stream was started as before.
    """
    before: Record | None = None
    tell = requester.tell
    kept, did_not = False, "has not told that it did"

    def remember(record: Record, ended: Driver) -> tuple[Record, str]:
        nonlocal before, kept, did_not
        before = record
        story.ended = ended.ending
        tell(f"driver {ended.epoch} has ended: {ended.ending or 'it has not told how'}")
        if ended.drained or request.accept_loss:
            if not ended.drained:
                story.notes.append("what was received and not processed by then is lost, as wanted")
            now = changed(record, stream, request.receivers)
            story.generation = now.receivers_generation
            return now, CHANGED
        kept = True
        if ended.drained is False:
            did_not = "did not"
        return record, KEPT

    try:
        outcome = reconcile(
            cluster,
            stream,
            requester.about(driver.epoch),
            # It is followed here.
            Start(restart=True, ended=remember, stop_timeout=policy.drain, start_wait=0.0),
        )
    except ClusterError as error:
        if before is None or kept:
            raise
        # It was to have its number. It was not launched, or has ended before its program ran.
        go_back(cluster, stream, story, before, error, requester)
    if kept:
        raise NotDone(
            f"{stream.name!r}: the number of receivers was not changed: driver {driver.epoch} had "
            f"{policy.drain:g} s to process what they had received, and {did_not} "
            f"({story.ended or 'it has not told how it ended'}). Driver {outcome.driver.epoch} was "
            f"started with {story.before} receivers as before, from the checkpoint that has it; "
            "raise receiver_policy.count.drain, or try again when less waits"
        )
    tell(f"driver {outcome.driver.epoch} was started with {request.receivers} receivers")
    assert before is not None
    return outcome, before


def go_back(
    cluster: ClusterManager,
    stream: DStream,
    story: Recounted,
    before: Record,
    error: Exception,
    requester: Requester,
) -> NoReturn:
    """Have the number and the checkpoint folder of before again, and a driver with them.

    Raises:
        NotDone: always; says what is so now.
    """
    requester.tell(f"putting back {story.before} receivers: {error}")
    said = f"{stream.name!r}: the number of receivers was not changed"
    stay = f"{stream.name!r}: {story.wanted} receivers stay set"

    def back(record: Record) -> Record:
        # One that has run has received something by now.
        if record.epoch > before.epoch + 1:
            as_runs = f"{stay}, as driver {record.epoch} runs with them, or has: "
            raise NotDone(WithRemedy(as_runs, str(error)))
        # As before: the new one was never remembered, and the driver has ended all the same.
        if record.receivers_generation not in (story.generation, before.receivers_generation):
            by_another = f"{said} by this run, but by another since. It failed of: "
            raise NotDone(WithRemedy(by_another, str(error)))
        return put_back(record, before)

    start = Start(cause=KEPT, unless_stopped=True, start_wait=0.0)
    ended = isinstance(error, NeverRan)
    came = trial.put_back(cluster, stream, requester, before.epoch, back, start, seen_to_end=ended)
    values = {"before": story.before, "wanted": story.wanted, "said": said, "stay": stay}
    runs = came.driver.epoch if came.driver is not None else None
    failures = {"error": error, "why": came.error}
    raise NotDone(WithRemedy.filled(_SAID[came.ending], runs=runs, **values, **failures)) from error


# Whoever is cut off from the store does not know whether it has the new number.
_SAID = {
    "in force": "{said}, and driver {runs} was started with {before} as before. With {wanted} it "
    "failed of: {error}",
    "stopped": "{said}: {before} are remembered again, and it was stopped. It failed of: {error}",
    "start failed": "{said}: {before} are remembered again, but a start with them has failed, too: "
    "{why}. The first one failed of: {error}",
    "lives": "{stay}, as driver {runs} runs with them, or has: {error}",
    "not known": "{stay}, if they were remembered, as whether a driver runs with them can't be "
    "told ({why}). It failed of: {error}",
    "not remembered": "{stay}, if they were remembered, as they could not be put back: {why}. It "
    "failed of: {error}",
}
"""What is so by how putting back the number of before has ended."""
