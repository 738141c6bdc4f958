"""Moves receivers between executors: what is asked for, what is refused, and what came of it. No
Dagster here.

One receiver after the other: each move is decided on what is so by then, asked for under the
stream's lease, and waited for without it. One that does not come back is the last that is moved.
"""

import time
from dataclasses import dataclass, field, replace

from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    ClusterError,
    OperationInProgress,
    Overtaken,
    StaleEpoch,
)
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import Refused, ask, gone
from dagster_sparkscale.declare.decisions import Move
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.steering import in_force, refuse_if_barred
from dagster_sparkscale.observe.receivers import active, in_words, receiver_of, spread
from dagster_sparkscale.observe.status import Relaunch, Status
from dagster_sparkscale.receivers.balance import moves, no_room, placement
from dagster_sparkscale.receivers.move import MoveReceiver
from dagster_sparkscale.receivers.preflight import receiving, running
from dagster_sparkscale.remedy import WithRemedy

ASK_SECONDS = 10.0
"""Seconds for which a move is asked for that can't be begun yet."""
_POLL = 0.25


@dataclass(frozen=True)
class RebalanceRequest:
    """What is to be moved; with neither receiver nor executor: what balances them."""

    receiver: int | None = None
    """The stream id of the receiver to move."""
    executor: str | None = None
    wait: float = 60.0
    """Seconds to wait for each receiver."""

    @property
    def by_hand(self) -> bool:
        return self.receiver is not None or self.executor is not None


@dataclass
class Rebalanced:
    """What happened, as it happens. The run's page is made of this."""

    driver: Driver
    receivers_before: int
    spread_before: str | None
    receivers_after: int | None = None
    """The receivers that run afterwards; None: not known."""
    spread_after: str | None = None
    moved: list[Relaunch] = field(default_factory=list)
    ending: str = "balanced"
    """`balanced`: there was nothing to do, or nothing that can be done, which a note says;
    `moved`; `not moved`: one is not where it was sent; `gone`: its driver has ended meanwhile."""
    notes: list[str] = field(default_factory=list)
    seconds: float | None = None

    @property
    def failed(self) -> bool:
        return self.ending in ("not moved", "gone")


def rebalance(
    cluster: ClusterManager, stream: Stream, request: RebalanceRequest, requester: Requester
) -> Rebalanced:
    """Carry out `request`, and see each receiver run where it was sent.

    Raises:
        Overtaken: the situation of the decision is over; nothing was done.
        Refused: the request makes no sense, or not now.
        StaleEpoch: the stream was started again since the request was made.
        OperationInProgress: another operation held the stream for longer than was to be waited.
        ClusterError: the agent could not be asked, or has refused.
    """
    receiving(stream)
    begun, tell = time.monotonic(), requester.tell
    story: Rebalanced | None = None
    while True:
        try:
            with cluster.lease(stream.name, requester, requester.lease_wait) as lease:
                driver, status, move = _next(cluster, stream, request, requester, story)
                if story is None:
                    there = active(status) or 0
                    story = Rebalanced(driver, len(status.receivers or ()), spread(status), there)
                    tell(f"before: receivers of executors {story.spread_before}")
                story.receivers_after, story.spread_after = active(status), spread(status)
                if move is None:
                    story.notes.extend(_left(stream, request, status))
                    break
                asked = _ask_for(cluster, driver, move, lease)
                number = lease.number
        except (Overtaken, Refused, ClusterError) as error:
            if story is None or not story.moved:
                raise
            # What has been moved is told in any case. Somebody else has the stream now, or it could
            # not be asked for.
            if not isinstance(error, Overtaken | Refused | StaleEpoch | OperationInProgress):
                story.ending = "not moved"
            story.notes.append(WithRemedy("no further receiver is moved: ", str(error)))
            break
        tell(f"moving {move}")
        status = _follow(cluster, story, move, asked, number, time.monotonic() + request.wait)
        story.receivers_after, story.spread_after = active(status), spread(status)
        tell(in_words(story.moved[-1]))
        # Every receiver once: more would not be balancing.
        if story.failed or request.by_hand or len(story.moved) >= story.receivers_before:
            break
    story.seconds = time.monotonic() - begun
    return story


def _next(
    cluster: ClusterManager,
    stream: Stream,
    request: RebalanceRequest,
    requester: Requester,
    story: Rebalanced | None,
) -> tuple[Driver, Status, Move | None]:
    """The driver, what it tells, and the move that is due; None: none is."""
    asking = requester if story is None else requester.about(story.driver.epoch)
    driver = running(cluster, stream.name, asking)
    if requester.decided:
        refuse_if_barred(in_force(driver.record, stream, time.time()))
    status = cluster.status(driver, window=0)
    if request.by_hand:
        return driver, status, by_hand(request, status)
    there = placement(status, stream.cores_per_task)
    if isinstance(there, str):
        if story is not None:
            story.notes.append(f"no further move is decided: {there}")
            return driver, status, None
        if requester.decided:
            raise Overtaken(there)
        raise Refused(f"{stream.name!r}: {there}; try again when that is over")
    found = moves(there.receivers, there.free)
    return driver, status, found[0] if found else None


def _left(stream: Stream, request: RebalanceRequest, status: Status) -> list[str]:
    """Why nothing is moved, where that is not because they are balanced."""
    if request.by_hand:
        return [f"receiver {request.receiver} runs on executor {request.executor} already"]
    there = placement(status, stream.cores_per_task)
    why = None if isinstance(there, str) else no_room(there)
    return [why] if why else []


def by_hand(request: RebalanceRequest, status: Status) -> Move | None:
    """The move that a person asks for; None: the receiver is there.

    Raises:
        Refused: the move makes no sense.
    """
    if request.receiver is None or request.executor is None:
        lacks = "receiver" if request.receiver is None else "executor"
        raise Refused(f"{lacks}: missing; give receiver and executor, or neither to balance all")
    if status.receivers is None:
        raise Refused("it can't be told where receivers run: nothing was moved")
    found = receiver_of(status, request.receiver)
    if found is None:
        ids = ", ".join(str(each.stream_id) for each in status.receivers) or "none"
        raise Refused(f"receiver = {request.receiver}: there is no such receiver; there is {ids}")
    known = [executor.id for executor in status.executors]
    if request.executor not in known:
        raise Refused(
            f"executor = {request.executor!r}: there is no such executor; there is "
            f"{', '.join(map(repr, known)) or 'none'}"
        )
    if found.executor == request.executor and found.moving_to is None:
        return None
    return Move(request.receiver, found.executor or "", request.executor)


def _ask_for(cluster: ClusterManager, driver: Driver, move: Move, lease: Lease) -> Status:
    """Have a receiver moved. The same may be asked again: an answer may be lost, and what can't be
    done now, as while it is being started, may be in a moment."""
    deadline = time.monotonic() + ASK_SECONDS
    while True:
        try:
            return cluster.change(
                driver, MoveReceiver(move.stream_id, move.to_executor), lease=lease
            )
        except AgentRefused:
            raise
        except ClusterError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_POLL)


def _follow(
    cluster: ClusterManager,
    story: Rebalanced,
    move: Move,
    asked: Status,
    number: int,
    deadline: float,
) -> Status:
    """Wait until the receiver runs where it was sent; adds to `story.moved`. The last status."""
    last = asked
    while True:
        status = ask(cluster, story.driver)
        last = status or last
        relaunch, now = _relaunch_after(last, move, number), receiver_of(last, move.stream_id)
        place = now.executor if now is not None else None
        settled = status is not None and now is not None and now.moving_to is None
        over = time.monotonic() >= deadline
        if settled and place == move.to_executor:
            return _moved(story, move, relaunch, place, "moved", last)
        sent = f"receiver {move.stream_id} was sent to executor {move.to_executor}"
        elsewhere = relaunch.to_executor if relaunch is not None else None
        if settled and elsewhere not in (None, move.to_executor):
            story.notes.append(f"{sent}, and runs on {elsewhere}")
            return _moved(story, move, relaunch, elsewhere, "not moved", last)
        if status is None and gone(cluster, story.driver):
            story.notes.append("the driver ended while a receiver was on its way")
            return _moved(story, move, relaunch, None, "gone", last)
        if over:
            where = "runs nowhere" if place is None else f"runs on {place}"
            failed = f"; it last failed of: {now.error}" if now and now.error else ""
            story.notes.append(f"{sent}, and {where} still{failed}")
            return _moved(story, move, relaunch, place, "not moved", last)
        time.sleep(_POLL)


def _moved(
    story: Rebalanced,
    move: Move,
    relaunch: Relaunch | None,
    place: str | None,
    ending: str,
    last: Status,
) -> Status:
    if relaunch is None:
        relaunch = Relaunch(move.stream_id, "move", move.from_executor or None, last.now)
    story.moved.append(replace(relaunch, to_executor=place, wanted=move.to_executor))
    story.ending = ending
    return last


def _relaunch_after(status: Status, move: Move, number: int) -> Relaunch | None:
    """What the driver tells of this move."""
    found = [
        each
        for each in status.relaunches
        if each.stream_id == move.stream_id and each.operation == number
    ]
    return found[-1] if found else None
