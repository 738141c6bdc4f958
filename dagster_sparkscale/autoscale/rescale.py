"""One rescale: what is asked for, what is refused, and what came of it. No Dagster here.

The request is made under the stream's lease. The wait for executors is not: a newer request or a
stop must not queue up behind executors that may never come. A newer target ends the wait.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dagster_sparkscale.autoscale.steer import Asker, pinned_by_hand, resume_it
from dagster_sparkscale.clusters.agents.change import SetExecutors
from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    ClusterError,
    Overtaken,
    StaleEpoch,
)
from dagster_sparkscale.clusters.records.leases import Lease, steer
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.records.steering import EFFECT, Steered, with_entry
from dagster_sparkscale.clusters.requests import Refused, alive, ask, gone
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.drift import until_restart
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.durations import in_units
from dagster_sparkscale.in_force import receiver_counts, slots
from dagster_sparkscale.in_force.steering import allowed, in_force, refuse_rescale_if_barred
from dagster_sparkscale.observe.receivers import active, away, in_words, relaunched_since, spread
from dagster_sparkscale.observe.status import Relaunch, Status
from dagster_sparkscale.remedy import Remedy, WithRemedy

_POLL = 0.5


@dataclass(frozen=True)
class RescaleRequest:
    stream: str
    target: int | None = None
    """Executors wanted, absolute."""
    delta: int | None = None
    """Executors more (or, below 0, fewer) than are registered now and have not been told to
    leave."""
    wait: float = 120.0
    """Seconds to wait for the executors to come or go."""
    reason: str = ""
    not_again: float = 0.0
    """Seconds for which the autoscaler asks for no more than the target; 0: it is free."""


@dataclass
class Rescaled:
    """What happened, as it happens. The run's page is made of this."""

    driver: Driver
    registered_before: int
    requested_before: int | None
    target: int
    registered_after: int | None = None
    leaving: int = 0
    """How many of them had been told to leave."""
    requested_seconds: float | None = None
    """Seconds from the start of the operation until the cluster had been asked."""
    seconds: float | None = None
    """Seconds from the start of the operation until its end."""
    ending: str = "requested"
    """`reached`, `short`, `superseded`, `gone`, `receivers missing` (the executors are there, and a
    receiver has not come back), or `requested` while waiting."""
    receivers_before: int | None = None
    """How many ran; None: not known."""
    receivers_after: int | None = None
    """How many of them run; None: not known."""
    spread_after: str | None = None
    """Receivers of each executor; None: not known."""
    relaunches: tuple[Relaunch, ...] = ()
    """Receivers that were away meanwhile, and where they went."""
    notes: list[str] = field(default_factory=list)
    steering: str = ""
    """What keeps the autoscaler from going on from there, in words; empty: nothing."""
    seen_before: Status | None = field(default=None, repr=False)
    """What the agent told before it."""

    @property
    def failed(self) -> bool:
        """Whether a receiver has not come back."""
        there, back = self.receivers_before, self.receivers_after
        if self.ending in ("superseded", "gone") or there is None or back is None:
            return False
        return back < there

    @property
    def missing(self) -> int | None:
        """Executors that did not come (above 0) or did not go (below 0)."""
        if self.registered_after is None:
            return None
        return self.target - self.registered_after


def target_of(request: RescaleRequest, bounds: Bounds, registered: int) -> int:
    """The absolute target of `request`.

    Args:
        registered: executors, those that are leaving not counted.

    Raises:
        Refused: neither or both of target and delta, or a target the stream can't have.
    """
    if (request.target is None) == (request.delta is None):
        given = "both" if request.target is not None else "neither"
        raise Refused(
            f"target and delta: {given} given; give one: a target is a number of executors, "
            "a delta is how many more than are registered now"
        )
    if request.target is not None:
        target, said = request.target, f"target = {request.target}"
    else:
        assert request.delta is not None
        if request.delta == 0:
            raise Refused("delta = 0: changes nothing; give a number above or below 0")
        target = registered + request.delta
        said = f"delta = {request.delta} (from {registered} registered to {target})"
    if target < bounds.minimum:
        least = f"{said}: {request.stream!r} has a minimum of {bounds.minimum}; to run none, "
        lower = "to go lower, change min_executors"
        if bounds.minimum == bounds.least and bounds.least_note:
            lower = f"lower it can't go: {bounds.least_note}"
        elif bounds.minimum_note:
            lower = bounds.minimum_note
        raise Refused(WithRemedy(least, Remedy.STOP_TO_RUN_NONE, f"; {lower}"))
    if bounds.maximum is not None and target > bounds.maximum:
        why = bounds.note or WithRemedy("to go higher, ", Remedy.RAISE_MAXIMUM)
        if bounds.ceiling is not None and target <= bounds.ceiling:
            pin = f"`sparkscale pin {request.stream} {target}` goes there without a restart"
            why = WithRemedy(why, f"; its driver can have {bounds.ceiling}: {pin}")
        raise Refused(
            WithRemedy(f"{said}: {request.stream!r} has a maximum of {bounds.maximum}; ", why)
        )
    return target


def rescale(
    cluster: ClusterManager, stream: Stream, request: RescaleRequest, requester: Requester
) -> Rescaled:
    """Carry out `request` and follow it until the executors are there, or it is clear they won't.

    Raises:
        Overtaken: the decision was for a driver that has ended since; nothing was changed.
        Refused: the request makes no sense, or the stream does not run.
        StaleEpoch: the stream was started again since the request was made.
        OperationInProgress: another operation held the stream for longer than was to be waited.
        ClusterError: the agent could not be asked, or gave no answer in time. Where the driver was
            reached before that, it keeps the new target and follows it as soon as it can.
    """
    begun, tell = time.monotonic(), requester.tell
    with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
        try:
            story, shards = _request(cluster, stream, request, requester, lease)
        except (Refused, AgentUnreachable, AgentRefused):
            if requester.decided and (why := _overtaken(cluster, stream, requester.epoch)):
                raise Overtaken(why) from None
            raise
    bounds = stream.bounds_for(shards, receiver_counts.of_driver(story.driver))
    target = story.target
    story.requested_seconds = time.monotonic() - begun
    tell(f"requested {target} executors after {story.requested_seconds:.2f} s")
    if not requester.decided and stream.autoscale is not None:
        _pin(cluster, stream, target, requester, request.reason, story)
    if target > bounds.aim(target):
        # Not refused, unlike what can never come: shards change, and the program may do more with
        # executors than read. The autoscaler adds none to them.
        story.notes.append(f"{bounds.useful_note}; {target} were requested all the same")
    _follow(cluster, story, begun + request.wait, tell)
    story.seconds = time.monotonic() - begun
    if story.ending == "short":
        _explain_shortfall(cluster, stream, story)
    if story.failed:
        _explain_receivers(story, ask(cluster, story.driver))
    return story


def _request(
    cluster: ClusterManager,
    stream: Stream,
    request: RescaleRequest,
    requester: Requester,
    lease: Lease,
) -> tuple[Rescaled, int | None]:
    """Ask for the executors. The story until then, and how many shards the sources read."""
    driver = _running(cluster, stream, requester.epoch)
    before = cluster.status(driver, window=0)
    if before.registered is None:
        raise AgentUnreachable(
            f"{stream.name!r}: its driver does not know its executors yet "
            f"(it is {before.phase}); try again when it runs"
        )
    bounds = stream.bounds_for(None, receiver_counts.of_driver(driver))
    reach = slots.bounds(stream, driver.record, until_restart(driver.declared, bounds))
    steering = in_force(driver.record, stream, time.time())
    staying = before.registered - before.removing
    within = allowed(reach, steering)
    if requester.decided and before.requested is not None:
        # Of what leads up to the minimum a budget may leave a part.
        within = replace(within, minimum=min(within.minimum, before.requested))
    target = target_of(request, within, staying)
    if requester.decided:
        refuse_rescale_if_barred(steering, target, before.requested, reach)
    leaving = f", of which {before.removing} are leaving" if before.removing else ""
    requester.tell(
        f"before: {before.registered} registered{leaving}, {before.requested} requested; "
        f"requesting {target}"
    )
    if request.not_again:
        # First: cut off between the two, the next evaluation goes back to what was before.
        _bound(cluster, stream, target, request, requester)
    asked = cluster.change(driver, SetExecutors(target), lease=lease)
    story = Rescaled(
        driver=driver,
        registered_before=before.registered,
        requested_before=before.requested,
        target=target,
        registered_after=asked.registered,
        receivers_before=active(before),
        receivers_after=active(before),
        seen_before=before,
    )
    return story, before.source_shards


def _bound(
    cluster: ClusterManager,
    stream: Stream,
    target: int,
    request: RescaleRequest,
    requester: Requester,
) -> None:
    """Have the autoscaler ask for no more than the target for a while."""
    now = time.time()
    who = "the autoscaler" if requester.decided else requester.name
    entry = Steered(who, request.reason, now, now + request.not_again, maximum=target)
    steer(cluster.store(), stream.name, lambda found: with_entry(found, EFFECT, entry, now))
    requester.tell(f"at most {target} for {in_units(request.not_again)}")


def _pin(
    cluster: ClusterManager,
    stream: Stream,
    target: int,
    requester: Requester,
    reason: str,
    story: Rescaled,
) -> None:
    """Pin the stream to what a person has asked for, for as long as its policy says."""
    assert stream.autoscale is not None
    lasts, asker = stream.autoscale.hand_pin, Asker.of(requester, reason, time.time())
    try:
        record = steer(
            *(cluster.store(), stream.name),
            lambda entries: pinned_by_hand(entries, target, lasts, asker),
        )
    except ClusterError as error:
        story.notes.append(f"it could not be pinned, the autoscaler goes on from there: {error}")
        return
    steering = in_force(record, stream, asker.now)
    if (entry := steering.decisive) is not None:
        story.steering = steering.in_words(entry)
        if entry.source == "person":
            story.steering += f"; {resume_it(stream.name, entry.kind)}"
        requester.tell(story.steering)


def _overtaken(cluster: ClusterManager, stream: Stream, epoch: int | None) -> str | None:
    """Why there is nothing to do any more about the driver that this was decided for; None: it may
    run."""
    driver = cluster.find(stream.name)
    if driver is None:
        return f"decided for driver {epoch}, of which nothing is known any more"
    if driver.epoch != epoch:
        return f"decided for driver {epoch}, and driver {driver.epoch} has come after it"
    if not driver.state.alive:
        return f"decided for driver {driver.epoch}, which has {driver.state.value} since"
    return None


def _running(cluster: ClusterManager, stream: Stream, epoch: int | None) -> Driver:
    driver = alive(stream.name, cluster.find(stream.name), "scale it")
    if epoch is not None and driver.epoch != epoch:
        raise StaleEpoch(
            f"{stream.name!r}: decided for driver {epoch}, but driver {driver.epoch} runs "
            "by now; the decision is void and the next evaluation makes its own"
        )
    return driver


def _follow(
    cluster: ClusterManager, story: Rescaled, deadline: float, tell: Callable[[str], None]
) -> None:
    """Wait until the target is reached, overtaken or out of time; sets `story.ending`."""
    silent = False
    while True:
        status = ask(cluster, story.driver)
        if status is None:
            if gone(cluster, story.driver):
                story.ending = "gone"
                story.notes.append("the driver ended while the operation waited for executors")
                return
            if not silent:
                tell("the agent does not answer; waiting for it")
            silent = True
        else:
            silent = False
            if status.requested is not None and status.requested != story.target:
                story.ending = "superseded"
                story.notes.append(f"a newer request set the target to {status.requested}")
                story.registered_after = status.registered
                return
            if status.registered is not None and status.registered != story.registered_after:
                tell(f"{status.registered} registered, {story.target} requested")
                story.registered_after = status.registered
            story.leaving = status.removing
            _see_receivers(story, status, tell)
            # On the way down there may be as many as are to come, and some of them leaving.
            reached = status.registered == story.target and not status.removing
            if reached and not story.failed:
                story.ending = "reached"
                return
            if reached and time.monotonic() >= deadline:
                story.ending = "receivers missing"
                return
            if status.blocked and time.monotonic() >= deadline:
                story.notes.append(status.blocked)
        if time.monotonic() >= deadline:
            story.ending = "short"
            return
        time.sleep(_POLL)


def _see_receivers(story: Rescaled, status: Status, tell: Callable[[str], None]) -> None:
    """Note where the receivers are, and which were away since."""
    story.spread_after = spread(status)
    if status.receivers is None or story.seen_before is None:
        story.receivers_after = None
        return
    # Their number can't change while a driver runs.
    story.receivers_after = active(status)
    told = relaunched_since(story.seen_before, status)
    for each in told:
        if each.to_executor is not None and each not in story.relaunches:
            tell(in_words(each))
    story.relaunches = told


def _explain_receivers(story: Rescaled, status: Status | None) -> None:
    """Describe receivers that have not come back, and why they left."""
    story.notes.append(
        f"{story.receivers_after} of {story.receivers_before} receivers run: not all have come back"
    )
    for each in away(status) if status is not None else ():
        of = f"; it last failed of: {each.error}" if each.error else ""
        story.notes.append(f"receiver {each.stream_id} runs nowhere{of}")


def _explain_shortfall(cluster: ClusterManager, stream: Stream, story: Rescaled) -> None:
    missing = story.missing or 0
    if missing > 0:
        story.notes.append(
            f"{missing} of {story.target} executors have not come yet; they stay requested"
        )
        capacity = cluster.capacity()
        if capacity is None:
            story.notes.append("the cluster manager could not be asked what it has left")
        else:
            story.notes.append(capacity.room_for(stream.executor_cores, stream.executor_memory))
            if capacity.executors(stream.executor_cores, stream.executor_memory) > 0:
                story.notes.append("those that are missing may still be starting")
    elif missing < 0:
        story.notes.append(f"{-missing} executors have not left yet")
    elif story.leaving:
        story.notes.append(
            f"{story.leaving} of the {story.target} that are registered are leaving, and have not "
            "left yet; others come in their place then"
        )
