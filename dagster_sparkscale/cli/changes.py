"""What changes a stream, each a run of its job: `scale`, `start`, `stop`, `restart`, `reconfigure`,
`retune`, `limits`, `forget`."""

import getpass
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import click

from dagster_sparkscale.autoscale.rescale_job import RescaleConfig
from dagster_sparkscale.backpressure.retune_job import RetuneConfig
from dagster_sparkscale.backpressure.set_limits import NONE_TOLD, in_words
from dagster_sparkscale.backpressure.set_limits_job import SetLimitsConfig, read_at_a_start, who_set
from dagster_sparkscale.cli.locations import Deployed, Target, on_a_target
from dagster_sparkscale.cli.options import Finite, field_option, seconds_option
from dagster_sparkscale.cli.runs import carry_out
from dagster_sparkscale.cli.words import in_a_terminal
from dagster_sparkscale.clusters.records.overtaking import STOP_ORPHAN
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.jobs import LONGEST_STOP, StopConfig
from dagster_sparkscale.names import scoped
from dagster_sparkscale.operations import OperationConfig, asset_key
from dagster_sparkscale.state.reconfigure_job import ReconfigureConfig

stream_argument = click.argument("stream")


reason_option = field_option(OperationConfig, "reason", "--reason")


def _how_to_stop(command: Callable[..., Any]) -> Callable[..., Any]:
    bounds = {"max": LONGEST_STOP, "min_open": True}
    command = seconds_option(StopConfig, "timeout_seconds", "--timeout", **bounds)(command)
    return click.option(
        "--now", is_flag=True, help="Do not wait for the batch in progress to finish."
    )(command)


def _whoever_declares_it(what: str) -> Callable[..., Any]:
    return click.option("--whoever-declares-it", is_flag=True, help=what)


@click.command()
@stream_argument
@click.argument("target", metavar="[N]", type=int, required=False)
@click.option("--delta", type=int, help="Executors more than there are now; below 0: fewer.")
@seconds_option(RescaleConfig, "wait_seconds", "--wait")
@reason_option
@on_a_target
def scale(
    where: Target,
    stream: str,
    target: int | None,
    delta: int | None,
    wait: float | None,
    reason: str | None,
) -> None:
    """Set the number of executors of STREAM to N, or change it by --delta.

    The autoscaler goes on from there.
    """
    if (target is None) == (delta is None):
        raise click.UsageError("give either N, the number of executors, or --delta")
    deployed, _ = where.find(stream)
    config = {"target": target, "delta": delta, "wait_seconds": wait}
    operate(deployed, "rescale", stream, config, reason)


@click.command()
@stream_argument
@_whoever_declares_it("Take STREAM over although another code location has started it.")
@reason_option
@on_a_target
def start(where: Target, stream: str, whoever_declares_it: bool, reason: str | None) -> None:
    """Start STREAM: materialize its asset. Attaches to its driver if one runs."""
    deployed, declared = where.find(stream)
    key = asset_key(declared)
    carry_out(
        deployed,
        deployed.repository.get_implicit_global_asset_job_def(),
        {"reason": reason or _by_hand(), "whoever_declares_it": whoever_declares_it or None},
        stream=stream,
        title=f"start {stream}",
        op=key.to_python_identifier(),
        tags=deployed.streams.tags(stream, "start"),
        asset=key,
    )


@click.command()
@stream_argument
@_whoever_declares_it("Also where another code location has started it.")
@_how_to_stop
@reason_option
@on_a_target
def stop(
    where: Target,
    stream: str,
    whoever_declares_it: bool,
    now: bool,
    timeout: float | None,
    reason: str | None,
) -> None:
    """Stop STREAM. It stays stopped until it is started."""
    deployed, _ = where.find(stream)
    config = {
        "graceful": not now,
        "timeout_seconds": timeout,
        "whoever_declares_it": whoever_declares_it or None,
    }
    operate(deployed, "stop", stream, config, reason)


@click.command()
@stream_argument
@reason_option
@on_a_target
def restart(where: Target, stream: str, reason: str | None) -> None:
    """Stop STREAM gracefully, if it runs, and start a new driver on the same checkpoint."""
    deployed, _ = where.find(stream)
    operate(deployed, "restart", stream, {}, reason)


@click.command()
@stream_argument
@click.argument("partitions", metavar="[N]", type=int, required=False)
@click.option("--query", help="The query that is meant. Default: each that keeps state.")
@field_option(ReconfigureConfig, "dry_run", "--dry-run", is_flag=True)
@reason_option
@on_a_target
def reconfigure(
    where: Target,
    stream: str,
    partitions: int | None,
    query: str | None,
    dry_run: bool,
    reason: str | None,
) -> None:
    """Give the state of STREAM N partitions, or as many as are declared or recommended.

    The stream is restarted for it, and stands still meanwhile.
    """
    deployed, _ = where.find(stream)
    config = {"partitions": partitions, "query": query, "dry_run": dry_run}
    operate(deployed, "reconfigure_state", stream, config, reason)


def _values(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> dict[str, float]:
    """`NAME=VALUE`, several of them."""
    values = {}
    for each in given:
        name, equals, text = each.partition("=")
        try:
            values[name.strip()] = float(text)
        except ValueError:
            equals = ""
        if not equals or not name.strip() or not math.isfinite(values[name.strip()]):
            raise click.BadParameter(
                f"{each!r}: must be NAME=NUMBER, such as clicks.maxOffsetsPerTrigger=20000"
            )
    return values


@click.command()
@stream_argument
@click.option("--dry-run", is_flag=True, help="Only say what would be changed. The default.")
@click.option("--apply", is_flag=True, help="Change what the stream's history recommends.")
@click.option(
    "--set",
    "values",
    metavar="NAME=NUMBER",
    multiple=True,
    callback=_values,
    help="Set a limit, such as clicks.maxOffsetsPerTrigger=20000; may be given several times.",
)
@field_option(RetuneConfig, "put_back", "--put-back", is_flag=True)
@reason_option
@on_a_target
def retune(
    where: Target,
    stream: str,
    dry_run: bool,
    apply: bool,
    values: dict[str, float],
    put_back: bool,
    reason: str | None,
) -> None:
    """Say what limits STREAM should have by its history, or change them.

    Limits that Spark reads once per start need a restart: the stream is stopped gracefully and
    started again.
    """
    chosen = {"--apply": apply, "--set": bool(values), "--put-back": put_back}
    given = [name for name, there in chosen.items() if there]
    if len(given) > 1 or (dry_run and (apply or put_back)):
        both = [*(["--dry-run"] if dry_run else []), *given]
        raise click.UsageError(f"{' and '.join(both)}: give one of them")
    deployed, _ = where.find(stream)
    config = {
        "dry_run": True if dry_run or not given else None,
        "put_back": put_back or None,
        "values": values or None,
    }
    operate(deployed, "retune_backpressure", stream, config, reason)


@click.command()
@stream_argument
@click.option("--source", metavar="NAME", help="The source; '*': each without limits of its own.")
@field_option(SetLimitsConfig, "rate", "--rate", metavar="N", type=Finite())
@click.option("--records", metavar="N", type=int, help="Records of a batch, at most.")
@field_option(SetLimitsConfig, "none", "--none", "nothing", is_flag=True)
@seconds_option(SetLimitsConfig, "wait_seconds", "--wait")
@reason_option
@on_a_target
def limits(
    where: Target,
    stream: str,
    source: str | None,
    rate: float | None,
    records: int | None,
    nothing: bool,
    wait: float | None,
    reason: str | None,
) -> None:
    """Show what the sources of STREAM may take, or set it while it runs.

    It stands until it is taken away, also for drivers to come.
    """
    changes = sum((rate is not None, records is not None, nothing))
    if changes > 1:
        raise click.UsageError("give one of --rate, --records and --none")
    deployed, declared = where.find(stream)
    if not changes:
        for line in _limits_of(deployed, declared, source):
            click.echo(in_a_terminal(line, stream))
        return
    config = {
        "source": source,
        "rate": rate,
        "records": records,
        "none": nothing or None,
        "wait_seconds": wait,
    }
    operate(deployed, "set_limits", stream, config, reason)


def _limits_of(deployed: Deployed, stream: Stream, source: str | None) -> list[str]:
    """What the sources of a stream may take, a line each; asks its driver, and changes nothing."""
    with deployed.cluster() as cluster:
        driver = cluster.find(stream.name)
        if driver is None or not driver.state.alive:
            state = driver.state.value if driver else "not started"
            raise click.ClickException(
                f"{stream.name!r} is {state}: `sparkscale start {stream.name}` starts it"
            )
        told = cluster.status(driver, window=0).limits
        read_once, set_by = read_at_a_start(cluster, stream), who_set(cluster, stream)
    limits = [limit for limit in told if source in (None, limit.source)]
    if source is not None and not limits:
        known = f"there is {', '.join(repr(each.source) for each in told)}" if told else NONE_TOLD
        raise click.ClickException(f"source = {source!r}: there is no such source; {known}")
    lines = [in_words(limit) for limit in limits] or [NONE_TOLD]
    return (
        lines + set_by + [f"read at a start: {name} {value}" for name, value in read_once.items()]
    )


@click.command()
@stream_argument
@_whoever_declares_it("Also one that another code location, or one not known, has started.")
@_how_to_stop
@reason_option
@on_a_target
def forget(
    where: Target,
    stream: str,
    whoever_declares_it: bool,
    now: bool,
    timeout: float | None,
    reason: str | None,
) -> None:
    """Stop STREAM, which runs and is not declared any more."""
    config = {
        "graceful": not now,
        "timeout_seconds": timeout,
        "whoever_declares_it": whoever_declares_it,
    }
    operate(where.remembering(stream), STOP_ORPHAN, stream, config, reason)


def operate(
    deployed: Deployed,
    operation: str,
    stream: str,
    config: Mapping[str, Any],
    reason: str | None,
) -> None:
    """Carry an operation out; what is None in `config` is left out."""
    job = scoped(operation, deployed.streams.cluster_key)
    carry_out(
        deployed,
        deployed.repository.get_job(job),
        {**config, "stream": stream, "reason": reason or _by_hand()},
        stream=stream,
        title=f"{operation} {stream}",
        op=job,
        tags=deployed.streams.tags(stream, operation),
    )


def _by_hand() -> str:
    try:
        who = getpass.getuser()
    except (KeyError, OSError):  # in a container users need not have names
        who = f"user {os.getuid()}"
    return f"by hand: sparkscale, {who}"
