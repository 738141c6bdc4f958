"""Executors in whole task waves of the stateful stages. Pure."""

from dataclasses import replace

from dagster_sparkscale.capability import Running
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.waves import aligned, waves
from dagster_sparkscale.observe.state import partitions as state_partitions


def in_whole_waves(situation: Running, decision: Hold | ScaleTo) -> Hold | ScaleTo:
    """`decision`, without executors that leave the task waves of the stateful stages as they are,
    where the stream's state wants that and all of its queries tell their partitions."""
    stream, status, requested = situation.stream, situation.status, situation.evaluation.requested
    if stream.state is None or not stream.state.align_executors:
        return decision
    partitions = state_partitions(status)
    if not isinstance(decision, ScaleTo) or requested is None or not partitions:
        return decision
    if not all(query.state for query in status.queries if query.active):
        return decision  # a query without state may do more with the others
    cores = stream.tasks_at_a_time
    minimum = situation.bounds.minimum
    target = aligned(decision.target, requested, partitions, cores, minimum=minimum)
    if target == decision.target:
        return decision
    rounds = waves(partitions, target, cores)
    why = (
        f"{decision.reason}; {target} instead of {decision.target} executors, which have as many "
        f"task waves of the {partitions} state partitions: {rounds}"
    )
    return replace(decision, target=target, reason=why)
