"""The operation `rebalance_receivers`: decided by how receivers are spread, or by hand."""

from pydantic import Field

from dagster_sparkscale.declare.decisions import MoveReceivers
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.receivers import in_words, rows
from dagster_sparkscale.operations import DecidedConfig, Operation, Report, Run, rounded
from dagster_sparkscale.receivers.rebalance import Rebalanced, RebalanceRequest, rebalance
from dagster_sparkscale.remedy import joined


class RebalanceConfig(DecidedConfig):
    """The config of a run. With neither `receiver` nor `executor` it balances all receivers, as is
    right by then."""

    receiver: int | None = Field(
        default=None, description="The receiver to move, by its stream id; give executor, too."
    )
    executor: str | None = Field(default=None, description="The executor that it is to run on.")
    wait_seconds: float = Field(
        default=60.0, ge=0, description="How long to wait for each receiver to run again."
    )


def _config_for(decision: MoveReceivers, _stream: Stream, epoch: int | None) -> RebalanceConfig:
    # Decided anew on what is so when it begins: receivers may have moved by themselves.
    return RebalanceConfig(epoch=epoch, reason=decision.reason)


def _carry_out(run: Run[RebalanceConfig]) -> Report:
    config = run.config
    request = RebalanceRequest(config.receiver, config.executor, config.wait_seconds)
    story = rebalance(run.cluster, run.stream, request, run.requester)
    return Report(
        _line(story),
        {
            "ending": story.ending,
            "receivers_before": story.receivers_before,
            "receivers_after": story.receivers_after,
            "spread_before": story.spread_before,
            "spread_after": story.spread_after,
            "moves": rows(story.moved),
            "seconds": rounded(story.seconds),
            "epoch": story.driver.epoch,
        },
        failed=story.failed,
        notes=story.notes,
    )


def _line(story: Rebalanced) -> str:
    if story.ending == "balanced":
        why = "; ".join(story.notes) or f"receivers of executors {story.spread_before}"
        return f"nothing to do: {why}"
    said = "; ".join(in_words(each) for each in story.moved)
    line = f"{story.spread_before} -> {story.spread_after}: {said}"
    if story.receivers_after not in (None, story.receivers_before):
        line += f"; {story.receivers_after} of {story.receivers_before} receivers run"
    return joined([line, *story.notes]) if story.failed else line


REBALANCE = Operation(
    "rebalance_receivers",
    "Spread the receivers of a stream evenly over its executors, or move one by hand, and see "
    "each run where it was sent.",
    RebalanceConfig,
    _carry_out,
    config_for=_config_for,
    of_one_driver=True,
    lease_wait=30.0,
)
