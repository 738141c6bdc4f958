"""Assesses one sighting of a stream: what should happen to it. Pure."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dagster_sparkscale.autoscale.scale_down import Asked, scale_down
from dagster_sparkscale.capability import Capabilities, Running, Situation
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Decision, Hold, ScaleTo
from dagster_sparkscale.declare.drift import drift
from dagster_sparkscale.declare.learner import Learner
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.limits import attributed, waiting
from dagster_sparkscale.in_force.slots import out_of_reach
from dagster_sparkscale.in_force.steering import beside, steer
from dagster_sparkscale.lifecycle.recovery import recover
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.findings import Finding, Health
from dagster_sparkscale.observe.minutes import Minute, minute
from dagster_sparkscale.remedy import Remedy, WithRemedy
from dagster_sparkscale.watch.coverage import NEVER, Evaluated, covered
from dagster_sparkscale.watch.health import check_health
from dagster_sparkscale.watch.sighting import Sighting


@dataclass(frozen=True)
class Assessment:
    """What one look has found of a stream, what follows, and why."""

    stream: str
    state: str
    """`running`, `starting`, `failed`, `stopped`, `unknown` or `not started`."""
    decision: Decision
    health: dict[Health, Finding]
    sighting: Sighting
    situation: Situation
    drift: tuple[str, ...] = ()
    """What a restart would change, the declaration being another than the driver's; a line each."""
    waits: str | None = None
    """What a decision to act waits for; None: it waits for nothing, or there is none."""
    busy: str | None = None
    """What its driver is in the middle of, in words."""
    asked: Asked | None = None
    """The executors that its policy has asked for, this time included; None: not known."""

    @property
    def evaluation(self) -> Evaluation | None:
        """What the batches of the window mean; None: there is no answer to evaluate."""
        return self.situation.evaluation

    @property
    def epoch(self) -> int | None:
        """None: no driver is known."""
        return self.sighting.driver.epoch if self.sighting.driver else None

    @property
    def acts(self) -> bool:
        """Whether a run is wanted."""
        return self.decision.operation is not None

    def __str__(self) -> str:
        return f"{self.stream}: {self.decision}: {self.decision.reason}"


_NOTHING: Mapping[str, float] = {}


def assess(
    stream: Stream,
    sighting: Sighting,
    *,
    capabilities: Capabilities,
    now: float,
    operation: str | None = None,
    due: bool = True,
    before: Evaluated = NEVER,
    learned: Mapping[str, float] = _NOTHING,
    asked: Asked | None = None,
    learner: Learner | None = None,
) -> Assessment:
    """Assess one stream.

    Args:
        now: seconds since the epoch, by the clock of the cluster's records.
        operation: the operation in flight on the stream, for people; nothing is done beside it.
        due: whether the policy's interval has passed since its last evaluation.
        before: the last evaluation; batches since then count even if they are older than the
            window.
        learned: what capabilities have learned of the stream.
        asked: the executors that its policy has asked for; None: not known here.
        learner: what its policy has learned from the minutes before; None: nothing, or that is not
            known here.
    """
    driver, status = sighting.driver, sighting.status
    busy = capabilities.busy(status)
    situation = Situation(stream, now, driver, status, learned=learned)
    held = _without_evaluation(stream, sighting, now, operation)
    if held is not None:
        of_executors = decision = held
    else:
        situation = running = _evaluated(situation, before)
        of_executors, decision, asked = _decided(running, capabilities, busy, asked, learner)
    drifted = _drifted(stream, driver)
    max_lag = stream.autoscale.max_lag if stream.autoscale else None
    health = check_health(
        *(sighting, situation.evaluation, of_executors, max_lag, drifted),
        now=now,
        operation=operation,
        busy=busy,
        faults=capabilities.faults(situation),
    )
    waits = _waits(decision, operation, due or _waits_for_no_interval(situation, decision))
    if waits is not None:
        decision = Hold(WithRemedy(f"{waits}; otherwise: {decision}: ", decision.reason))
    return Assessment(
        stream=stream.name,
        state=_state(sighting),
        decision=decision,
        health=health,
        sighting=sighting,
        situation=situation,
        drift=drifted,
        waits=waits,
        busy=busy,
        asked=asked,
    )


def _state(sighting: Sighting) -> str:
    if sighting.driver is not None:
        return sighting.driver.state.value
    return "unknown" if sighting.error else "not started"


def _waits_for_no_interval(situation: Situation, decision: Decision) -> bool:
    """Whether a policy's interval says nothing of a decision: no evaluation has led to it, or it
    is a pin, and so a person's."""
    pins = isinstance(decision, ScaleTo) and situation.steering.of("pin") is not None
    return situation.evaluation is None or pins


def _drifted(stream: Stream, driver: Driver | None) -> tuple[str, ...]:
    if driver is None or not driver.state.alive:
        return ()
    return (*drift(driver.declared, stream), *waiting(driver.record))


def assess_or_say_why(stream: Stream, sighting: Sighting, **known: Any) -> Assessment:
    """`assess`, for who sees to many streams: an odd answer of one driver must not keep the others
    from being seen to. One that can't be assessed has a sighting that says so."""
    try:
        return assess(stream, sighting, **known)
    except Exception as error:
        why = f"it can't be judged: {type(error).__name__}: {error}"
        return assess(stream, Sighting(stream.name, error=why), **known)


def _without_evaluation(
    stream: Stream, sighting: Sighting, now: float, operation: str | None
) -> Decision | None:
    """What follows where no running driver has answered; None: it has."""
    driver, status = sighting.driver, sighting.status
    if sighting.error is not None:
        return Hold(sighting.error)
    if operation is not None and (driver is None or driver.state is DriverState.STOPPED):
        return Hold(f"{operation} is in progress")
    if driver is None:
        return Hold(WithRemedy("not started: ", Remedy.START_FIRST))
    if driver.hold is not None and not driver.state.alive:
        held = driver.hold
        return Hold(f"held by {held.by}, in the middle of: {held.step}; {held.undo}")
    if driver.state is DriverState.STOPPED:
        return Hold("stopped on request")
    if driver.state is DriverState.FAILED:
        hopeless = out_of_reach(stream, driver)
        return recover(stream.recovery, driver, sighting.history, now, hopeless=hopeless)
    if status is None:
        return Hold("the agent gave no status")
    if status.epoch != driver.epoch or status.stream != stream.name:
        return Hold(
            f"the agent answers for {status.stream} epoch {status.epoch}, "
            f"expected {stream.name} epoch {driver.epoch}"
        )
    return None


def _evaluated(found: Situation, before: Evaluated) -> Running:
    """The situation of a stream whose driver has answered, with what its batches mean."""
    stream, driver, status = found.stream, found.driver, found.status
    assert driver is not None and status is not None
    window, newest = covered(stream.window, status, before)
    evaluation = evaluate(
        status, window=window, batch_interval=stream.batch_interval, newest=newest
    )
    evaluation = attributed(stream, driver.record, status, evaluation)
    return Running(stream, found.now, driver, status, evaluation, found.learned)


def _decided(
    situation: Running,
    capabilities: Capabilities,
    busy: str | None,
    asked: Asked | None,
    learner: Learner | None,
) -> tuple[Decision, Decision, Asked | None]:
    """What is decided of the executors, what should happen to the stream, and which executors have
    been asked for from now on."""
    phase = situation.status.phase
    if busy is not None or phase != "running":
        held = Hold(busy or f"the driver is {phase}")
        return held, held, asked
    steering, bounds = situation.steering, situation.bounds
    wanted = capabilities.adjust(situation, _by_policy(situation, bounds, learner))
    if situation.stream.autoscale is not None:
        wanted, asked = scale_down(
            *(wanted, situation.stream.autoscale, bounds, situation.evaluation, asked),
            *(situation.driver.epoch, situation.now),
        )
    of_executors = steer(wanted, steering, situation.evaluation.requested, bounds)
    if isinstance(of_executors, ScaleTo) or (wanted.operation and steering.barring):
        return of_executors, of_executors, asked
    other = beside(capabilities.decide(situation, of_executors), steering)
    return of_executors, other, asked


def _waits(decision: Decision, operation: str | None, due: bool) -> str | None:
    """What a decision to act waits for; None: nothing.

    Args:
        due: whether it is its time; recovery, which evaluates nothing, has pauses of its own.
    """
    if decision.operation is None:
        return None
    if operation is not None:
        return f"{operation} is in progress"
    return None if due else "not due yet"


def _by_policy(situation: Running, bounds: Bounds, learner: Learner | None) -> Hold | ScaleTo:
    """What the stream's policy decides. One that fails, as a user's own may, is the reason to hold:
    it must not keep the other streams from being seen to."""
    policy = situation.stream.autoscale
    if policy is None:
        return Hold("the stream has no autoscale policy")
    evaluation = situation.evaluation
    name = type(policy).__name__
    try:
        if learner is None:
            decision = policy.decide(bounds, evaluation)
        else:
            decision = learner.after(_minute(situation)).decide(bounds, evaluation)
    except (Exception, SystemExit) as error:  # it must not end the tick of all streams
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}, line {where.lineno}"
        why = f"{type(error).__name__}: {error} ({place})"
        return Hold(f"{name} could not decide: {why}", broken=True)
    if fault := _fault(decision, bounds):
        return Hold(f"{name} could not decide: {fault}", broken=True)
    return decision


def _minute(situation: Running) -> Minute:
    """The minute of this look, as far as anything is learned from it."""
    driver = situation.driver
    return minute(situation.now, driver.state.value, driver.epoch, situation.evaluation)


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
