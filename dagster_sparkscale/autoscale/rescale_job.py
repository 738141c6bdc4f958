"""The operation `rescale`: decided by a policy, or by hand from the launchpad."""

from typing import Any

from pydantic import Field

from dagster_sparkscale.autoscale.rescale import Rescaled, RescaleRequest, rescale
from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.durations import in_units
from dagster_sparkscale.observe.receivers import in_words, rows
from dagster_sparkscale.operations import DecidedConfig, Operation, Report, Run, rounded


class RescaleConfig(DecidedConfig):
    """The config of a rescale run. Give `target` or `delta`, not both."""

    target: int | None = Field(default=None, description="Executors wanted, absolute.")
    delta: int | None = Field(
        default=None, description="Executors more than are registered now and stay; below 0: fewer."
    )
    wait_seconds: float = Field(
        default=120.0, ge=0, description="How long to wait for the executors to come or go."
    )
    not_again_seconds: float | None = Field(
        default=None,
        ge=0,
        description="For how long the autoscaler asks for no more than the target.",
    )


def _config_for(decision: ScaleTo, stream: Stream, epoch: int | None) -> RescaleConfig:
    # Followed until the next evaluation, which may want another number, but for as long as
    # executors take to start.
    patience = min(120.0, max(30.0, 0.8 * stream.window))
    return RescaleConfig(
        target=decision.target,
        epoch=epoch,
        wait_seconds=patience,
        not_again_seconds=decision.not_again_for or None,
        reason=decision.reason,
    )


def _carry_out(run: Run[RescaleConfig]) -> Report:
    config = run.config
    request = RescaleRequest(
        *(run.name, config.target, config.delta, config.wait_seconds, config.reason),
        config.not_again_seconds or 0.0,
    )
    story = rescale(run.cluster, run.stream, request, run.requester)
    after = "?" if story.registered_after is None else story.registered_after
    line = f"{story.registered_before} -> {after} executors"
    if story.ending == "reached":
        line += f" in {story.seconds or 0:.1f} s"
    else:
        line += f", target {story.target}: {story.ending} after {story.seconds or 0:.1f} s"
    if story.receivers_before:
        line += f"; receivers {story.spread_after or 'not known'}"
    if told := "; ".join(map(in_words, story.relaunches)):
        line += f": {told}"
    if story.steering:
        line += f"; {story.steering}"
    if config.not_again_seconds:
        line += f"; at most {story.target} for {in_units(config.not_again_seconds)}"
    if story.failed:
        line += f"; {'; '.join(story.notes)}"
    return Report(
        line,
        {
            "decision": f"scale to {story.target}",
            "ending": story.ending,
            "executors_before": story.registered_before,
            "executors_requested_before": story.requested_before,
            "executors_target": story.target,
            "executors_after": story.registered_after,
            "executors_missing": story.missing,
            "requested_seconds": rounded(story.requested_seconds),
            "seconds": rounded(story.seconds),
            "epoch": story.driver.epoch,
            **_of_receivers(story),
        },
        failed=story.failed,
        notes=story.notes,
    )


def _of_receivers(story: Rescaled) -> dict[str, Any]:
    """What became of receivers; nothing where there are none, or it is not known of any."""
    if not story.receivers_before:
        return {}
    return {
        "receivers_before": story.receivers_before,
        "receivers_after": story.receivers_after,
        "receivers_of_executors": story.spread_after,
        "relaunches": rows(story.relaunches),
    }


RESCALE = Operation(
    "rescale",
    "Set the number of executors of a stream, to a target or by a delta, and follow them.",
    RescaleConfig,
    _carry_out,
    config_for=_config_for,
    lease_wait=30.0,
)
