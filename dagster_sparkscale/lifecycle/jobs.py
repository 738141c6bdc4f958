"""The operations `stop` and `restart`: by hand; `restart` also after a failure."""

from dataclasses import replace
from typing import Any

from pydantic import Field

from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.clusters.records.overtaking import RECOVERY, Requester
from dagster_sparkscale.clusters.requests import LOG_LINES
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.reconcile import Action, Outcome, Start, reconcile
from dagster_sparkscale.lifecycle.recovery import Restart
from dagster_sparkscale.observe.state import in_progress
from dagster_sparkscale.operations import Operation, OperationConfig, Report, Run

LONGEST_STOP = 24 * 3600.0
"""Seconds; what an agent takes for meant at most."""


class StopConfig(OperationConfig):
    """The config of a stop run."""

    graceful: bool = Field(
        default=True, description="Finish the batch in progress first. False: stop at once."
    )
    timeout_seconds: float = Field(
        default=120.0,
        gt=0,
        le=LONGEST_STOP,
        description="After this long, what has not ended is killed.",
    )
    whoever_declares_it: bool = Field(
        default=False,
        description="Stop it although another code location has started a stream of that name.",
    )

    @property
    def takes_anothers(self) -> bool:
        return self.whoever_declares_it


class RestartConfig(OperationConfig):
    """The config of a restart run."""

    failed_epoch: int | None = Field(
        default=None,
        description="Recovery: the driver that failed. If another runs by now, or if the stream's "
        "recovery says to wait or has given up, nothing is done.",
    )


def _stop(run: Run[StopConfig]) -> Report:
    return stop_by_name(run.cluster, run.name, run.config, run.requester)


def stop_by_name(
    cluster: ClusterManager, stream: str, config: StopConfig, requester: Requester
) -> Report:
    """Stop a stream, declared or not.

    Raises:
        ValueError: the stream was never started.
        ClusterError: as `ClusterManager.stop`.
    """
    with cluster.lease(stream, requester, requester.lease_wait) as lease:
        driver = cluster.find(stream)
        if driver is None:
            raise ValueError(f"{stream!r} was never started: there is nothing to stop")
        ended = cluster.stop(
            driver, lease, graceful=config.graceful, timeout=config.timeout_seconds
        )
    how = f": {ended.ending}" if ended.ending and driver.state.alive else ""
    return Report(
        f"driver {ended.epoch} was {driver.state.value} and is {ended.state.value} now{how}",
        {
            "epoch": ended.epoch,
            "state": ended.state.value,
            "state_before": driver.state.value,
            "exit_reason": ended.exit_reason,
            "ending": ended.ending,
        },
    )


STOP: Operation[StopConfig, Any] = Operation(
    "stop", "Stop a stream. It stays stopped until its asset is materialized.", StopConfig, _stop
)


def _restart(run: Run[RestartConfig]) -> Report:
    requester, start, failed_epoch = run.requester, Start(restart=True), run.config.failed_epoch
    if failed_epoch is not None:
        requester = replace(requester, change=RECOVERY)
        start = Start(cause="recovery", failed_epoch=failed_epoch)
        failed = run.cluster.find(run.name)
        if failed is not None and failed.epoch == failed_epoch:
            tail = run.cluster.logs(failed, LOG_LINES)
            requester.tell(f"last log lines of driver {failed.epoch}:\n{tail}")
    outcome = reconcile(run.cluster, run.stream, requester, start)
    story = story_of(run.stream, outcome, run.config.reason)
    return Report(describe(outcome), story, outcome=described_in_short(outcome))


def _recovery(decision: Restart, stream: Stream, epoch: int | None) -> RestartConfig:
    return RestartConfig(failed_epoch=epoch, reason=decision.reason)


RESTART = Operation(
    "restart",
    "Stop a stream gracefully, if it runs, and start a new driver on the same checkpoint.",
    RestartConfig,
    _restart,
    expires=False,
    recovers=True,
    config_for=_recovery,
)


def described_in_short(outcome: Outcome) -> str:
    """What starting came to, for the row of a run and what happened: without where the driver is,
    beside which there would be no room for why it was started.
    """
    return describe(outcome).partition(" (")[0]


def describe(outcome: Outcome) -> str:
    """One line on what starting came to."""
    driver = outcome.driver
    if outcome.action is Action.HELD:
        return f"nothing was done: {outcome.reason}"
    if outcome.action is Action.ATTACHED and not driver.state.alive:
        return f"driver {driver.epoch} is {driver.state.value} by now: nothing was done"
    if outcome.action is Action.ATTACHED and driver.state is DriverState.STARTING:
        return (
            f"driver {driver.epoch} is starting already ({driver.where}): attached to it; to have "
            "what is declared by now, restart the stream"
        )
    if outcome.action is Action.ATTACHED:
        return f"driver {driver.epoch} runs already ({driver.where}): attached to it"
    line = f"{outcome.action.value} driver {driver.epoch} ({driver.where})"
    if outcome.launched not in (None, driver.epoch):
        # Held up until then, this run must not tell of another's driver as of its own.
        line = f"{outcome.action.value} driver {outcome.launched}"
        return f"{line}, and driver {driver.epoch} has come after it ({driver.where})"
    if outcome.dropped:
        line += f"; {'; '.join(outcome.dropped)}"
    if outcome.status is None:
        return f"{line}; its agent has not answered after {outcome.seconds:.0f} s"
    if outcome.status.reconfiguring is not None:
        doing = in_progress(outcome.status.reconfiguring)
        return f"{line}; after {outcome.seconds:.0f} s it is {doing}"
    if outcome.status.waits_for_slots is not None:
        return f"{line}; after {outcome.seconds:.0f} s {outcome.status.waits_for_slots}"
    if not any(query.active for query in outcome.status.queries):
        return f"{line}; no query has started after {outcome.seconds:.0f} s"
    return f"{line}; its first query ran after {outcome.seconds:.1f} s"


def story_of(stream: Stream, outcome: Outcome, reason: str | None) -> dict[str, Any]:
    """What a start came to: the same for an asset's materialization and for a restart run."""
    driver, status = outcome.driver, outcome.status
    url = (status.ui_url if status else None) or driver.ui_url
    return {
        "action": outcome.action.value,
        "reason": reason,
        "epoch": driver.epoch,
        "state": driver.state.value,
        "where": driver.where,
        "seconds": round(outcome.seconds, 3),
        "app_id": status.app_id if status else driver.app_id,
        "executors_registered": status.registered if status else None,
        "executors_requested": status.requested if status else None,
        "executors_maximum": stream.bounds.maximum,
        "maximum_note": stream.bounds.note,
        "spark_ui": url,
    }
