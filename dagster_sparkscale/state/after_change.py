"""Just after a change of state in the driver that runs, batches say nothing of the size. Pure."""

from dagster_sparkscale.capability import Running
from dagster_sparkscale.declare.decisions import Hold, ScaleTo


def not_for_the_copy(situation: Running, decision: Hold | ScaleTo) -> Hold | ScaleTo:
    """`decision`, unless it is for more executors as batches were slow beside a change of state, or
    late after it: those are in the evaluation window until that has passed once more."""
    status, evaluation = situation.status, situation.evaluation
    if not isinstance(decision, ScaleTo) or decision.target <= (evaluation.requested or 0):
        return decision
    over = [
        each.over_at
        for each in status.state_changes
        if each.over_at and each.way != "restart" and each.outcome != "refused"
    ]
    since = status.now - max(over, default=0.0)
    if not 0 <= since < evaluation.window:  # below 0: the clock was set back
        return decision
    return Hold(
        f"state was changed until {since:.0f} s ago, and batches were slower for that; otherwise: "
        f"{decision}: {decision.reason}"
    )
