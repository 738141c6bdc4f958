"""Changes the number of a stream's receivers: what is asked for, what is refused, and what came of
it. No Dagster here.

The number of a running application can't change, so it is a restart, under one lease:

    drain     the driver ends with all processed that its receivers had received, in time
    remember  the new number and a new checkpoint folder; where it was not drained: neither, and
              the stream goes on as it was, from the checkpoint that has what was received
    start     and see that so many receivers run

What a driver with the new number had received before its first batch could not be recovered by any
start: Spark reads a write-ahead log only where there is a checkpoint, which the first batch makes.
So one that ends before it has run a query has nothing to lose, and the number of before, with its
checkpoint, is put back.
"""

import time

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.errors import StaleEpoch
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import Refused, ask
from dagster_sparkscale.declare.receivers import ReceiverCount, fitting_executors
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.in_force.receiver_counts import changed, count_of
from dagster_sparkscale.observe.receivers import active
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.receivers.decide import asked_of, most_executors
from dagster_sparkscale.receivers.preflight import receiving, running
from dagster_sparkscale.receivers.recount_follow import NeverRan, Recounted, follow
from dagster_sparkscale.receivers.recount_restart import RecountRequest, go_back, restart

__all__ = ["RecountRequest", "Recounted", "recount"]


def recount(
    cluster: ClusterManager, stream: Stream, request: RecountRequest, requester: Requester
) -> Recounted:
    """Carry out `request`, and follow it until so many receivers run.

    Raises:
        Overtaken: the decision was for a driver that has ended since; nothing was done.
        Refused: the request makes no sense, or not now.
        StaleEpoch: another driver runs by now, or it was stopped; nothing was done.
        OperationInProgress: another operation held the stream for longer than was to be waited.
        NotDone: it was not drained in time, or no driver with the new number came up; says which
            number stays, and what runs.
        ClusterError: the cluster manager could not do its part.
    """
    begun, tell = time.monotonic(), requester.tell
    declared, policy = _checked(stream, request)
    driver = cluster.find(stream.name)
    if driver is not None and not driver.state.alive and not requester.decided:
        return _remember(cluster, declared, request, requester)
    driver = running(cluster, stream.name, requester)
    status = ask(cluster, driver)
    before = asked_of(driver, declared)
    story = Recounted(before, request.receivers, driver)
    runs = active(status) if status is not None else None
    if before == request.receivers:
        story.after = runs
        return story
    tell(f"before: {before} receivers; setting {request.receivers}, by a restart")
    _fits(declared, request.receivers, status)
    outcome, record = restart(cluster, declared, policy, request, story, driver, requester)
    try:
        follow(cluster, story, outcome, time.monotonic() + request.wait, tell)
    except NeverRan as error:
        go_back(cluster, declared, story, record, error, requester)
    story.seconds = time.monotonic() - begun
    return story


def _checked(stream: Stream, request: RecountRequest) -> tuple[DStream, ReceiverCount]:
    """The stream, and how its number of receivers may be.

    Raises:
        Refused: the number can't be changed, or not to that.
    """
    declared = receiving(stream)
    policy = count_of(declared)
    if policy is None:
        raise Refused(
            f"{stream.name!r} does not declare that its program takes the number of its receivers "
            "from here: give receiver_policy=ReceiverPolicy(count=ReceiverCount(...)), and have "
            "the program use receiver_count and receiver_checkpoint; or change receivers"
        )
    if policy.clamp(request.receivers) != request.receivers:
        raise Refused(
            f"receivers = {request.receivers}: must be {policy.minimum} to {policy.maximum}, as "
            f"receiver_policy.count of {stream.name!r} has it"
        )
    return declared, policy


def _fits(stream: DStream, receivers: int, status: Status | None) -> None:
    """Refuse as many receivers as would take every core that the stream can have."""
    most = most_executors(stream, status)
    if most is None:
        return
    places = most * stream.tasks_at_a_time
    if receivers >= places:
        scale_first = ""
        if stream.bounds.maximum is None and stream.autoscale is None:
            # Nobody adds executors by itself: as many as were requested last are all there are.
            need = fitting_executors(receivers, stream.tasks_at_a_time)
            scale_first = f"; scale it to {need} or more first (sparkscale scale)"
        raise Refused(
            f"receivers = {receivers}: must be at most {places - 1}; so many would take every core "
            f"of {most} executor(s), the most {stream.name!r} can have, and no batch could run"
            + scale_first
        )


def _remember(
    cluster: ClusterManager, stream: DStream, request: RecountRequest, requester: Requester
) -> Recounted:
    """The number for the next start of a stream that does not run."""
    with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
        driver = cluster.find(stream.name)
        if driver is None or driver.state.alive:
            raise Refused(f"{stream.name!r} was started in the meantime: ask again")
        if requester.epoch not in (None, driver.epoch):
            raise StaleEpoch(
                f"{stream.name!r}: asked for driver {requester.epoch}, and driver {driver.epoch} "
                f"is {driver.state.value} by now"
            )
        story = Recounted(asked_of(driver, stream), request.receivers, driver, ended=driver.ending)
        if story.before == request.receivers:
            return story
        if not driver.drained and not request.accept_loss:
            raise Refused(
                f"{stream.name!r} is {driver.state.value}, and did not end with all processed that "
                f"it had received ({driver.ending or 'it has not told how'}): start it, and set "
                "the number while it runs; or accept the loss. Nothing was changed"
            )
        record = lease.write(changed(lease.record, stream, request.receivers))
        story.generation, story.ending = record.receivers_generation, "remembered"
        return story
