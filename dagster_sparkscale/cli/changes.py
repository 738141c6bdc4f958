"""What changes a stream, each a run of its job: `scale`, `start`, `stop`, `restart`, `reconfigure`,
`retune`, `limits`, `forget`. Their options are the fields of the config that the job has."""

import math
from collections.abc import Callable
from typing import Any

import click

from dagster_sparkscale.autoscale.rescale_job import RescaleConfig
from dagster_sparkscale.backpressure.retune_job import RetuneConfig
from dagster_sparkscale.backpressure.set_limits import NONE_TOLD, in_words
from dagster_sparkscale.backpressure.set_limits_job import SetLimitsConfig, read_at_a_start, who_set
from dagster_sparkscale.cli.locations import Deployed, Target, as_given, on_a_target
from dagster_sparkscale.cli.options import Finite, field_option, flag, seconds_option
from dagster_sparkscale.cli.runs import carry_out
from dagster_sparkscale.cli.words import in_a_terminal
from dagster_sparkscale.clusters.base import ClusterManager, Driver
from dagster_sparkscale.clusters.records.overtaking import STOP_ORPHAN
from dagster_sparkscale.lifecycle.jobs import LONGEST_STOP, StopConfig
from dagster_sparkscale.operations import OperationConfig, asset_key
from dagster_sparkscale.state.reconfigure_job import ReconfigureConfig

stream_argument = click.argument("stream")
reason_option = field_option(OperationConfig, "reason", "--reason")


def _how_to_stop(command: Callable[..., Any]) -> Callable[..., Any]:
    bounds = {"max": LONGEST_STOP, "min_open": True}
    command = seconds_option(StopConfig, "timeout_seconds", "--timeout", **bounds)(command)
    what = "Do not wait for the batch in progress to finish."
    return flag("--now", "graceful", sets=False, help=what)(command)


@click.command()
@stream_argument
@click.argument("target", metavar="[N]", type=int, required=False)
@click.option("--delta", type=int, help="Executors more than there are now; below 0: fewer.")
@seconds_option(RescaleConfig, "wait_seconds", "--wait")
@reason_option
@on_a_target
def scale(where: Target, stream: str, **config: Any) -> None:
    """Set the number of executors of STREAM to N, or change it by --delta.

    With a policy, it is pinned to that for as long as `hand_pin` says; then the autoscaler goes on.
    """
    if (config["target"] is None) == (config["delta"] is None):
        raise click.UsageError("give either N, the number of executors, or --delta")
    carry_out(where.find(stream), "rescale", stream, config)


@click.command()
@stream_argument
@flag(
    "--whoever-declares-it", help="Take STREAM over although another code location has started it."
)
@reason_option
@on_a_target
def start(where: Target, stream: str, **config: Any) -> None:
    """Start STREAM: materialize its asset. Attaches to its driver if one runs."""
    deployed = where.find(stream)
    carry_out(deployed, "start", stream, config, asset_key(deployed.streams.by_name[stream]))


@click.command()
@stream_argument
@flag("--whoever-declares-it", help="Also where another code location has started it.")
@_how_to_stop
@reason_option
@on_a_target
def stop(where: Target, stream: str, **config: Any) -> None:
    """Stop STREAM. It stays stopped until it is started."""
    carry_out(where.find(stream), "stop", stream, config)


@click.command()
@stream_argument
@reason_option
@on_a_target
def restart(where: Target, stream: str, **config: Any) -> None:
    """Stop STREAM gracefully, if it runs, and start a new driver on the same checkpoint."""
    carry_out(where.find(stream), "restart", stream, config)


@click.command()
@stream_argument
@click.argument("partitions", metavar="[N]", type=int, required=False)
@click.option("--query", help="The query that is meant. Default: each that keeps state.")
@field_option(ReconfigureConfig, "dry_run", "--dry-run")
@reason_option
@on_a_target
def reconfigure(where: Target, stream: str, **config: Any) -> None:
    """Give the state of STREAM N partitions, or as many as are declared or recommended.

    Its query is changed beside the stream or in place, and else by a restart of the driver;
    --dry-run says which, and for how long the stream would stand still.
    """
    goes_on = (
        ", and where the driver has begun to change state, it finishes or undoes that by itself"
        f"\nin the end: `sparkscale explain {stream}` says what came of it"
    )
    carry_out(where.find(stream), "reconfigure_state", stream, config, if_interrupted=goes_on)


def _values(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> dict[str, float] | None:
    """`NAME=VALUE`, several of them; None for none."""
    values: dict[str, float] = {}
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
    return values or None


@click.command()
@stream_argument
@click.option("--dry-run", is_flag=True, help="Only say what would be changed. The default.")
@click.option("--apply", is_flag=True, help="Change what the stream's history recommends.")
@click.option(
    *("--set", "values"),
    metavar="NAME=NUMBER",
    multiple=True,
    callback=_values,
    help="Set a limit, such as clicks.maxOffsetsPerTrigger=20000; may be given several times.",
)
@field_option(RetuneConfig, "put_back", "--put-back")
@reason_option
@on_a_target
def retune(where: Target, stream: str, dry_run: bool, apply: bool, **config: Any) -> None:
    """Say what limits STREAM should have by its history, or change them.

    Limits that Spark reads once per start need a restart: the stream is stopped gracefully and
    started again.
    """
    chosen = {"--apply": apply, "--set": config["values"], "--put-back": config["put_back"]}
    given = [name for name, there in chosen.items() if there]
    if len(given) > 1 or (dry_run and (apply or config["put_back"])):
        both = [*(["--dry-run"] if dry_run else []), *given]
        raise click.UsageError(f"{' and '.join(both)}: give one of them")
    config["dry_run"] = dry_run or not given or None
    carry_out(where.find(stream), "retune_backpressure", stream, config)


@click.command()
@stream_argument
@click.option("--source", metavar="NAME", help="The source; '*': each without limits of its own.")
@field_option(SetLimitsConfig, "rate", "--rate", metavar="N", type=Finite())
@click.option("--records", metavar="N", type=int, help="Records of a batch, at most.")
@field_option(SetLimitsConfig, "none", "--none")
@seconds_option(SetLimitsConfig, "wait_seconds", "--wait")
@reason_option
@on_a_target
def limits(where: Target, stream: str, **config: Any) -> None:
    """Show what the sources of STREAM may take, or set it while it runs.

    It stands until it is taken away, also for drivers to come.
    """
    changes = sum(config[name] is not None for name in ("rate", "records", "none"))
    if changes > 1:
        raise click.UsageError("give one of --rate, --records and --none")
    deployed = where.find(stream)
    if changes:
        carry_out(deployed, "set_limits", stream, config)
        return
    for line in _limits_of(deployed, stream, config["source"]):
        click.echo(in_a_terminal(line, stream))


def _limits_of(deployed: Deployed, stream: str, source: str | None) -> list[str]:
    """What the sources of a stream may take, a line each; asks its driver, and changes nothing."""
    declared = deployed.streams.by_name[stream]
    with deployed.cluster() as cluster:
        known = cluster.status(running(cluster, stream), window=0).limits
        read_once, set_by = read_at_a_start(cluster, declared), who_set(cluster, declared)
    limits = [limit for limit in known if source in (None, limit.source)]
    if source is not None and not limits:
        names = ", ".join(repr(each.source) for each in known)
        there_is = f"there is {names}" if known else NONE_TOLD
        raise click.ClickException(f"source = {source!r}: there is no such source; {there_is}")
    lines = [in_words(limit) for limit in limits] or [NONE_TOLD]
    return (
        lines + set_by + [f"read at a start: {name} {value}" for name, value in read_once.items()]
    )


def running(cluster: ClusterManager, stream: str, so: str = "") -> Driver:
    """The driver of a stream; where none runs, an error that goes on with `so`."""
    driver = cluster.find(stream)
    if driver is None or not driver.state.alive:
        state = driver.state.value if driver else "not started"
        start_it = f"`sparkscale start {stream}{as_given()}` starts it"
        raise click.ClickException(f"{stream!r} is {state}: {so}{start_it}")
    return driver


@click.command()
@stream_argument
@flag(
    "--whoever-declares-it",
    help="Also one that another code location, or one not known, has started.",
)
@_how_to_stop
@reason_option
@on_a_target
def forget(where: Target, stream: str, **config: Any) -> None:
    """Stop STREAM, which runs and is not declared any more."""
    carry_out(where.remembering(stream), STOP_ORPHAN, stream, config)


CHANGES = (scale, start, stop, restart, reconfigure, retune, limits, forget)
