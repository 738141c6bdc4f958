"""Assesses one sighting of a stream: what should happen to it. Pure."""

import traceback
from dataclasses import dataclass, replace
from functools import partial

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Decision, Hold, ScaleTo
from dagster_sparkscale.declare.drift import drift, until_restart
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.waves import aligned, waves
from dagster_sparkscale.in_force.limits import attributed, waiting
from dagster_sparkscale.lifecycle.recovery import recover
from dagster_sparkscale.observe.evaluation import Evaluation, evaluate
from dagster_sparkscale.observe.state import in_progress
from dagster_sparkscale.observe.state import partitions as state_partitions
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.receivers.decide import decide
from dagster_sparkscale.remedy import Remedy, WithRemedy
from dagster_sparkscale.watch.coverage import NEVER, Evaluated, covered
from dagster_sparkscale.watch.health import Finding, Health, examine
from dagster_sparkscale.watch.sighting import Sighting


@dataclass(frozen=True)
class Assessment:
    """What was seen of a stream, what follows, and why."""

    stream: str
    state: str
    """`running`, `starting`, `failed`, `stopped`, `unknown` or `not started`."""
    decision: Decision
    health: dict[Health, Finding]
    seen: Evaluation | None = None
    epoch: int | None = None
    """None: no driver is known."""
    drift: tuple[str, ...] = ()
    """What a restart would change, the declaration being another than the driver's; a line each."""
    waits: str | None = None
    """What a decision to act waits for; None: it waits for nothing, or there is none."""

    @property
    def acts(self) -> bool:
        """Whether a run is wanted."""
        return self.decision.operation is not None

    def __str__(self) -> str:
        return f"{self.stream}: {self.decision}: {self.decision.reason}"


def assess(
    stream: Stream,
    sighting: Sighting,
    *,
    now: float,
    operation: str | None = None,
    due: bool = True,
    before: Evaluated = NEVER,
    capacity: float | None = None,
) -> Assessment:
    """Assess one stream.

    Args:
        now: seconds since the epoch, by the clock of the cluster's records.
        operation: the operation in flight on the stream, for people; nothing is done beside it.
        due: whether the policy's interval has passed since its last evaluation.
        before: the last evaluation; batches since then count even if they are older than the
            window.
        capacity: records per second that one of its receivers was seen to take at most; None: not
            known.
    """
    driver, status = sighting.driver, sighting.status
    state = driver.state.value if driver else "unknown" if sighting.error else "not started"
    seen: Evaluation | None = None
    decision: Decision
    of_executors: Decision | None = None
    if sighting.error is not None:
        decision = Hold(sighting.error)
    elif operation is not None and (driver is None or driver.state is DriverState.STOPPED):
        decision = Hold(f"{operation} is in progress")
    elif driver is None:
        decision = Hold(WithRemedy("not started: ", Remedy.START_FIRST))
    elif driver.hold is not None and not driver.state.alive:
        held = driver.hold
        decision = Hold(f"held by {held.by}, in the middle of: {held.step}; {held.undo}")
    elif driver.state is DriverState.STOPPED:
        decision = Hold("stopped on request")
    elif driver.state is DriverState.FAILED:
        decision = recover(stream.recovery, driver, sighting.history, now)
    elif status is None:
        decision = Hold("the agent gave no status")
    elif status.epoch != driver.epoch or status.stream != stream.name:
        decision = Hold(
            f"the agent answers for {status.stream} epoch {status.epoch}, "
            f"expected {stream.name} epoch {driver.epoch}"
        )
    else:
        window, newest = covered(stream.window, status, before)
        seen = evaluate(status, window=window, batch_interval=stream.batch_interval, newest=newest)
        seen = attributed(stream, driver.record, status, seen)
        if status.reconfiguring is not None:
            decision = Hold(in_progress(status.reconfiguring))
        elif status.phase == "running":
            by_policy = _in_whole_waves(_by_policy(stream, seen, driver), stream, status, seen)
            decision = of_executors = by_policy
            if isinstance(by_policy, Hold):
                decision = decide(by_policy, stream, driver, status, seen, capacity)
        else:
            decision = Hold(f"the driver is {status.phase}")
    max_lag = stream.autoscale.max_lag if stream.autoscale else None
    alive = driver is not None and driver.state.alive
    drifted: tuple[str, ...] = ()
    if driver is not None and alive:
        drifted = (*drift(driver.declared, stream), *waiting(driver.record))
    judged = decision if of_executors is None else of_executors
    health = examine(*(sighting, seen, judged, max_lag, drifted), now=now, operation=operation)
    waits: str | None = None
    if decision.operation is not None:
        if operation is not None:
            waits = f"{operation} is in progress"
        elif not due and seen is not None:  # a recovery has pauses of its own
            waits = "not due yet"
        if waits is not None:
            decision = Hold(f"{waits}; otherwise: {decision}: {decision.reason}")
    return Assessment(
        stream=stream.name,
        state=state,
        decision=decision,
        health=health,
        seen=seen,
        epoch=driver.epoch if driver else None,
        drift=drifted,
        waits=waits,
    )


def judge(
    stream: Stream,
    sighting: Sighting,
    *,
    now: float,
    operation: str | None = None,
    due: bool = True,
    before: Evaluated = NEVER,
    capacity: float | None = None,
) -> tuple[Assessment, Sighting]:
    """`assess`, for who sees to many streams: an odd answer of one driver must not keep the others
    from being seen to.

    Returns:
        The assessment, and what it is of: of one that can't be judged, a sighting that says so.
    """
    judged = partial(
        assess,
        stream,
        now=now,
        operation=operation,
        due=due,
        before=before,
        capacity=capacity,
    )
    try:
        return judged(sighting), sighting
    except Exception as error:
        why = f"it can't be judged: {type(error).__name__}: {error}"
        odd = Sighting(stream.name, error=why)
        return judged(odd), odd


def _by_policy(stream: Stream, seen: Evaluation, driver: Driver) -> Hold | ScaleTo:
    """What the stream's policy decides. One that fails, as a user's own may, is told of as the
    reason: it must not keep the other streams from being seen to."""
    policy = stream.autoscale
    if policy is None:
        return Hold("the stream has no autoscale policy")
    bounds = until_restart(driver.declared, stream.bounds_for(seen.shards, driver.receivers))
    name = type(policy).__name__
    try:
        decision = policy.decide(bounds, seen)
    except (Exception, SystemExit) as error:  # it must not end the tick of all streams
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}, line {where.lineno}"
        why = f"{type(error).__name__}: {error} ({place})"
        return Hold(f"{name} could not decide: {why}", broken=True)
    if fault := _fault(decision, bounds):
        return Hold(f"{name} could not decide: {fault}", broken=True)
    return decision


def _in_whole_waves(
    decision: Hold | ScaleTo, stream: Stream, status: Status, seen: Evaluation
) -> Hold | ScaleTo:
    """`decision`, without executors that leave the task waves of the stateful stages as they are,
    where the stream's state wants that and all of its queries tell their partitions."""
    if stream.state is None or not stream.state.align_executors:
        return decision
    partitions = state_partitions(status)
    if not isinstance(decision, ScaleTo) or seen.requested is None or not partitions:
        return decision
    if not all(query.state for query in status.queries if query.active):
        return decision  # a query without state may do more with the others
    cores, minimum = stream.tasks_at_a_time, stream.bounds.minimum
    target = aligned(decision.target, seen.requested, partitions, cores, minimum=minimum)
    if target == decision.target:
        return decision
    rounds = waves(partitions, target, cores)
    why = (
        f"{decision.reason}; {target} instead of {decision.target} executors, which have as many "
        f"task waves of the {partitions} state partitions: {rounds}"
    )
    return replace(decision, target=target, reason=why)


def _fault(decision: object, bounds: Bounds) -> str | None:
    """What is wrong with a decision, in words."""
    if decision.__class__ not in (Hold, ScaleTo):
        return f"it returned {decision!r}; must be Hold or ScaleTo"
    assert isinstance(decision, Hold | ScaleTo)
    reason: object = decision.reason
    if not isinstance(reason, str):
        return f"reason = {reason!r}; must be text"
    if isinstance(decision, ScaleTo):
        if type(decision.target) is not int:
            return f"target = {decision.target!r}; must be a whole number"
        if bounds.clamp(decision.target) != decision.target:
            right = "must be within the bounds, as bounds.aim() makes it"
            return f"target = {decision.target}; {right}"
    return None
