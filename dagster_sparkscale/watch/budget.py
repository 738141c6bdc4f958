"""What a tick decides, cut to what a budget leaves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dagster_sparkscale.autoscale.budget import Cut, Share, cuts
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.operations import STALE_AFTER
from dagster_sparkscale.remedy import WithRemedy
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.memory import Memory, StreamMemory


def within(
    budget: Budget,
    assessments: Mapping[str, Assessment],
    memory: Memory,
    now: float,
    beside: Sequence[Share] = (),
) -> tuple[dict[str, Assessment], list[Share]]:
    """The assessments, by stream; a stream that wants more than there is gets what there is, or
    holds and says who has it. And what each has of the budget from now on, and wants beside that.

    Args:
        beside: streams that others decide on: what they have, and want.
        memory: has the executors of a driver that does not answer. What is granted now is
            remembered there: the run that asks for it may have to wait.
        now: seconds since the epoch.
    """
    shares = [
        Share(
            assessment.situation.stream,
            max(_executors(assessment, memory), _granted(memory, assessment.stream, now)),
            assessment.decision.target if isinstance(assessment.decision, ScaleTo) else None,
        )
        for assessment in assessments.values()
    ]
    found = cuts(budget, [*shares, *beside])
    cut = {
        name: _cut(assessment, found[name]) if name in found else assessment
        for name, assessment in assessments.items()
    }
    for name, assessment in cut.items():
        if isinstance(assessment.decision, ScaleTo):
            memory.of(name).granted = (now, assessment.decision.target)
        elif not _granted(memory, name, now):
            memory.of(name).granted = None  # so a cursor need not have it for ever
    return cut, [_after(share, found.get(share.stream.name)) for share in shares]


def _after(share: Share, cut: Cut | None) -> Share:
    """What a stream has once it was granted what it wants, up to a cut."""
    if cut is not None:
        return replace(share, executors=cut.target)
    return replace(share, executors=max(share.executors, share.target or 0), target=None)


def _granted(memory: Memory, stream: str, now: float) -> int:
    """Executors for which a run may be on its way still."""
    known = memory.streams.get(stream)
    at, target = known.granted if known is not None and known.granted else (0.0, 0)
    return target if 0 <= now - at < STALE_AFTER else 0


def _cut(assessment: Assessment, cut: Cut) -> Assessment:
    decision, evaluation = assessment.decision, assessment.evaluation
    why = WithRemedy(f"{cut.why}; otherwise: {decision}: ", decision.reason)
    if evaluation is not None and cut.target > (evaluation.requested or 0):
        return replace(assessment, decision=ScaleTo(cut.target, why))
    return replace(assessment, decision=Hold(why), waits=cut.why)


def _executors(assessment: Assessment, memory: Memory) -> int:
    """Executors that a stream has, or that are kept for it until it runs again. What does not
    answer has what it had: a number that is not known is no zero."""
    driver, evaluation = assessment.situation.driver, assessment.evaluation
    if evaluation is not None and evaluation.requested is not None:
        return max(evaluation.requested, evaluation.registered or 0)
    known = memory.streams.get(assessment.stream, StreamMemory())
    last, bounds = known.told.requested, assessment.situation.stream.bounds
    if driver is None:
        # Never started, or it could not be looked at; with a cursor that was lost it may have all.
        may_run = assessment.state == DriverState.UNKNOWN.value
        if may_run and last is None and (known.epoch is not None or not known.told.at):
            return bounds.maximum or bounds.initial
        return (last or 0) if may_run else 0
    record = driver.record
    restarts = record is not None and record.desired == "restarting"
    gave_up = isinstance(assessment.decision, Hold) and assessment.decision.gave_up
    if driver.state is DriverState.STOPPED or (gave_up and not restarts):
        return 0
    remembered = record.executors if record is not None else None
    # It may have been asked for another number since it was last told of.
    return max(last or 0, remembered or 0) or bounds.initial
