"""Carries a job out in this process, as a run that Dagster records and shows."""

import getpass
import io
import os
import signal
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import FrameType
from typing import Any

import click
import dagster as dg

from dagster_sparkscale.cli.locations import Deployed, instance_of_home
from dagster_sparkscale.cli.private_dagster import (
    MAX_RUNTIME_SECONDS_TAG,
    DagsterExecutionInterruptedError,
    capture_interrupts,
)
from dagster_sparkscale.cli.words import in_a_terminal
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.names import BY_TAG, REMEDY, scoped
from dagster_sparkscale.private_dagster import REPOSITORY_LABEL_TAG
from dagster_sparkscale.remedy import WithRemedy

_INTERRUPTED = DagsterExecutionInterruptedError.__name__


def carry_out(
    deployed: Deployed,
    operation: str,
    stream: str,
    config: Mapping[str, Any],
    asset: dg.AssetKey | None = None,
    if_interrupted: str = "",
) -> None:
    """Carry an operation on a stream out as a run of its job, telling what it logs as it goes.

    It does not wait in Dagster's queue, and needs no daemon: a stop must be possible where nothing
    else of Dagster runs.

    Args:
        config: the config of the op but for the stream; values that are None are left out.
        asset: the asset to materialize, for a start; None: the operation has a job of its own.
        if_interrupted: what is said besides where the command is interrupted.

    Raises:
        click.ClickException: the run failed; says why in its words.
        ClusterError: the cluster refuses its settings. A run would say so on its page only.
    """
    with deployed.cluster():
        pass
    values = {**config, "reason": config["reason"] or _by_hand()}
    op, job = _op_and_job(deployed, operation, asset)
    if asset is None:
        values["stream"] = stream
    run_id, out = str(uuid.uuid4()), sys.stdout

    def tell(event: dg.EventLogEntry) -> None:
        # A start is followed by its stream's checks, of which nothing is known so soon.
        if not event.is_dagster_event and event.step_key == op:
            click.echo(in_a_terminal(event.user_message, stream), file=out)

    with instance_of_home() as instance:
        instance.add_event_listener(run_id, tell)
        click.echo(f"run {run_id[:8]}: {operation} {stream}", err=True)
        # Dagster's own log of a run goes to the console as well, in hundreds of characters a line.
        with (
            _ended_if_interrupted(instance, run_id),
            _ending_in_order(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            given = {key: value for key, value in values.items() if value is not None}
            result = job.execute_in_process(
                run_config={"ops": {op: {"config": given}}},
                instance=instance,
                run_id=run_id,
                tags=_tags(deployed, operation, stream),
                asset_selection=None if asset is None else [asset],
                raise_on_error=False,
            )
    if not result.success:
        why = _why(result)
        if why is None:
            why = _interrupted(deployed, operation, stream, if_interrupted)
        raise click.ClickException(in_a_terminal(why, stream))


def _op_and_job(
    deployed: Deployed, operation: str, asset: dg.AssetKey | None
) -> tuple[str, dg.JobDefinition]:
    """The name of the op that carries an operation out, and its job."""
    if asset is None:
        op = scoped(operation, deployed.streams.cluster_key)
        return op, deployed.repository.get_job(op)
    return asset.to_python_identifier(), deployed.repository.get_implicit_global_asset_job_def()


def _interrupted(deployed: Deployed, operation: str, stream: str, besides: str) -> str:
    """What is said of an operation that was interrupted."""
    return (
        f"interrupted; what had been asked for by then stands{besides}\n"
        f"now: {_left(deployed, operation, stream)}`sparkscale status {stream}` follows it"
    )


def _left(deployed: Deployed, operation: str, stream: str) -> str:
    """What is said where an interrupted operation has left a stream without a driver; empty where
    it has not, was to, or that is not known."""
    if operation == "stop":
        return ""
    try:
        with deployed.cluster() as cluster:
            driver = cluster.find(stream)
    except (ClusterError, dg.DagsterError):
        return ""
    if driver is None or driver.state.alive:
        return ""
    return (
        f"driver {driver.epoch} has ended and no other was started: THE STREAM IS DOWN until "
        f"`sparkscale start {stream}`, or its recovery where a daemon runs; "
    )


def _tags(deployed: Deployed, operation: str, stream: str) -> dict[str, str]:
    return {
        **deployed.streams.tags(stream, operation),
        BY_TAG: _who(),
        # The limit of run monitoring would mark a long stop as failed while it goes on.
        MAX_RUNTIME_SECONDS_TAG: "0",
        # Whose it is: what a run from the UI has by its origin.
        REPOSITORY_LABEL_TAG: f"{deployed.repository.name}@{deployed.location}",
    }


def _by_hand() -> str:
    return f"by hand: sparkscale, {_who()}"


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container users need not have names
        return f"user {os.getuid()}"


@contextmanager
def _ended_if_interrupted(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """An interrupt that comes before the run has a step is none that Dagster writes down."""
    try:
        yield
    except DagsterExecutionInterruptedError:
        if (run := instance.get_run_by_id(run_id)) is not None and not run.is_finished:
            instance.report_run_failed(run, "interrupted before anything was done")
        raise click.ClickException("interrupted; nothing was done") from None


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Whatever ends the command ends its run as Ctrl-C does, which gives the stream back, and not
    as one that goes on, which would keep the autoscaler from the stream.

    Dagster does so for SIGTERM, and not for the end of a terminal. An interrupt that comes before
    the run does anything is kept until then.
    """

    def hang_up(_number: int, _frame: FrameType | None) -> None:
        # Terminal and shell may both send it: once it is ending, it is left to end.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGHUP)
    with capture_interrupts():
        if before is not signal.SIG_IGN:  # as `nohup` sets it: then it is to go on
            signal.signal(signal.SIGHUP, hang_up)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, before)


def _why(result: dg.ExecuteInProcessResult) -> str | None:
    """Why it failed; None: it was interrupted."""
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            if (why := data.user_failure_data) and why.description:
                packed = why.metadata.get(REMEDY)
                if packed is None:
                    return why.description
                return WithRemedy.unpacked(packed.value, why.description)  # type: ignore[arg-type]
            if data.error is not None and data.error.cls_name == _INTERRUPTED:
                return None
            if data.error is not None:
                return (data.error.cause or data.error).message.strip()
    return f"run {result.run_id[:8]} failed; its page in Dagster says why"
