"""What should happen to the receivers of a stream, where its number of executors is left as it is.
Pure.

First how many there are, which is a restart, and places them all anew; then where they are.
"""

from dataclasses import replace

from dagster_sparkscale.capability import Running
from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.declare.decisions import Hold, MoveReceivers, ReceiversTo
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.driver.spark.features import MOVES
from dagster_sparkscale.in_force import receiver_counts
from dagster_sparkscale.in_force.limits import RECEIVER_MAX, read_once
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.receivers.balance import Placement, moves, no_room, placement
from dagster_sparkscale.receivers.count import CAPACITY, Counted, capacity_of, count

_MOVES_IN_WORDS = "moving receivers"
"""What a driver of a release without ids calls the feature `MOVES`."""


def decide(situation: Running, held: Hold) -> Hold | ReceiversTo | MoveReceivers:
    """What should happen to its receivers; or `held`, with why nothing should.

    Args:
        held: what was decided of its executors.
    """
    stream = situation.stream
    if not isinstance(stream, DStream) or stream.receiver_policy is None:
        return held
    policy, reasons = stream.receiver_policy, list[str]()
    if policy.count is not None:
        number = count(policy.count, situation.evaluation, _counted(stream, situation))
        if isinstance(number, ReceiversTo):
            return number
        reasons.append(number.reason)
    if policy.rebalance:
        placed = _rebalanced(stream, situation.status, situation.evaluation)
        if isinstance(placed, MoveReceivers):
            return placed
        if placed is not None and placed not in reasons:
            reasons.append(placed)
    if not reasons:
        return held
    return replace(held, reason=f"{held.reason}; receivers: {'; '.join(reasons)}")


def asked_of(driver: Driver, stream: DStream) -> int:
    """How many receivers a driver was to start."""
    number = receiver_counts.of_driver(driver)
    return stream.receivers if number is None else number


def most_executors(stream: DStream, status: Status | None) -> int | None:
    """The most executors that receivers can have to fit on; None: any number.

    Args:
        status: what its driver tells; None: nothing.
    """
    most = stream.bounds.maximum
    if most is None and stream.autoscale is None and status is not None:
        return status.requested  # nobody adds any
    return most


def _counted(stream: DStream, situation: Running) -> Counted:
    driver, status = situation.driver, situation.status
    most = most_executors(stream, status)
    places = most * stream.tasks_at_a_time if most is not None else None
    declared = capacity_of(stream)
    return Counted(
        running=len(status.receivers) if status.receivers is not None else None,
        asked=asked_of(driver, stream),
        places=places,
        capacity=situation.learned.get(CAPACITY) if declared is None else declared,
        allowed=_allowed(stream, driver),
        cause=driver.cause,
    )


def _allowed(stream: DStream, driver: Driver) -> float | None:
    """Records per second that one receiver may take by what a start reads; None: any number."""
    if driver.record is None:
        return None
    limit = read_once(stream, driver.record).get(RECEIVER_MAX)
    return limit.value if limit is not None else None


def _rebalanced(
    stream: DStream, status: Status, evaluation: Evaluation
) -> MoveReceivers | str | None:
    """The moves that balance its receivers; or why there is nothing to decide on, in words; None:
    they are balanced."""
    if evaluation.uptime is None or evaluation.uptime < evaluation.window:
        return None  # they come as the executors do
    if MOVES.id in status.lacks or _MOVES_IN_WORDS in status.missing:
        return "its Spark lacks what moves them"
    there = placement(status, stream.cores_per_task)
    if isinstance(there, str):
        return there
    found = moves(there.receivers, there.free)
    return MoveReceivers(found, _why(there)) if found else no_room(there)


def _why(there: Placement) -> str:
    average = sum(map(len, there.receivers.values())) / len(there.receivers)
    return (
        f"receivers of executors {there.in_words}: one has at least one more than the average, "
        f"{average:.2f}"
    )
