"""The operation `set_receivers`: decided by a stream's ReceiverCount, or by hand."""

from pydantic import Field

from dagster_sparkscale.declare.decisions import ReceiversTo
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.operations import DecidedConfig, Operation, Report, Run, rounded
from dagster_sparkscale.receivers.recount import Recounted, RecountRequest, recount
from dagster_sparkscale.remedy import joined


class SetReceiversConfig(DecidedConfig):
    """The config of a run."""

    receivers: int = Field(description="How many receivers there are to be.")
    accept_loss: bool = Field(
        default=False,
        description="Change the number also where what was received is not all processed: that is "
        "lost then.",
    )
    wait_seconds: float = Field(
        default=300.0, ge=0, description="How long to wait for all receivers to run."
    )


def _config_for(decision: ReceiversTo, _stream: Stream, epoch: int | None) -> SetReceiversConfig:
    return SetReceiversConfig(receivers=decision.receivers, epoch=epoch, reason=decision.reason)


def _carry_out(run: Run[SetReceiversConfig]) -> Report:
    config = run.config
    request = RecountRequest(config.receivers, config.accept_loss, config.wait_seconds)
    story = recount(run.cluster, run.stream, request, run.requester)
    return Report(
        _line(story),
        {
            "ending": story.ending,
            "receivers_before": story.before,
            "receivers_wanted": story.wanted,
            "receivers_after": story.after,
            "generation": story.generation,
            "driver_before_ended": story.ended,
            "seconds": rounded(story.seconds),
            "seconds_until_they_ran": rounded(story.still_seconds),
            "epoch": story.driver.epoch if story.driver is not None else None,
        },
        failed=story.failed,
        notes=story.notes,
    )


def _line(story: Recounted) -> str:
    change = f"{story.before} -> {story.wanted} receivers"
    if story.ending == "unchanged":
        return f"nothing to do: {story.before} receivers are set already"
    if story.ending == "remembered":
        return f"{change}, from the next start on: the stream does not run now"
    line = f"{change}: {story.ending}"
    if story.driver is not None:
        line += f", driver {story.driver.epoch}"
    if story.ending == "changed":
        return f"{line}, all run {story.still_seconds or 0:.1f} s after it was started"
    return joined([line, *story.notes])


SET_RECEIVERS = Operation(
    "set_receivers",
    "Set the number of receivers of a stream: ends it with all processed that was received, and "
    "starts it with the new number.",
    SetReceiversConfig,
    _carry_out,
    config_for=_config_for,
)
