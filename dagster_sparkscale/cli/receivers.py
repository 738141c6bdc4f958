"""`receivers`: where the receivers of a stream run, now; moves one, balances them, or sets how many
there are, each a run of its job."""

from typing import Any

import click

from dagster_sparkscale.cli.changes import reason_option, running, stream_argument
from dagster_sparkscale.cli.locations import Target, on_a_target
from dagster_sparkscale.cli.options import Finite, flag
from dagster_sparkscale.cli.runs import carry_out
from dagster_sparkscale.cli.words import in_a_terminal
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.observe.receivers import in_words, spread
from dagster_sparkscale.observe.status import Receiver, Status
from dagster_sparkscale.quantities import number
from dagster_sparkscale.receivers.page import RELAUNCHES


@click.command()
@stream_argument
@click.option("--move", metavar="ID", type=int, help="Move the receiver with this stream id.")
@click.option("--to", metavar="EXECUTOR", help="Where --move moves it to.")
@click.option("--rebalance", is_flag=True, help="Spread them evenly over the executors.")
@click.option("--set", "number_of", metavar="N", type=int, help="Have N receivers: restarts it.")
@flag(
    "--accept-loss",
    help="With --set: also where what was received is not all processed, and is lost.",
)
@click.option(
    *("--wait", "wait_seconds"),
    metavar="SECONDS",
    type=Finite(0),
    help="How long to wait for receivers to run. Default: 60; with --set 300.",
)
@reason_option
@on_a_target
def receivers(
    where: Target,
    stream: str,
    move: int | None,
    to: str | None,
    rebalance: bool,
    number_of: int | None,
    accept_loss: bool | None,
    **config: Any,
) -> None:
    """Show where the receivers of STREAM run, move them, or set how many there are."""
    if sum((move is not None, rebalance, number_of is not None)) > 1:
        raise click.UsageError("give one of --move, --rebalance and --set")
    if (move is None) != (to is None):
        raise click.UsageError("give --move and --to together: a receiver, and where it is to run")
    if accept_loss and number_of is None:
        raise click.UsageError("give --accept-loss with --set, which it is for")
    deployed = where.find(stream)
    if number_of is not None:
        config |= {"receivers": number_of, "accept_loss": accept_loss}
        carry_out(deployed, "set_receivers", stream, config)
    elif move is not None or rebalance:
        config |= {"receiver": move, "executor": to}
        carry_out(deployed, "rebalance_receivers", stream, config)
    else:
        with deployed.cluster() as cluster:
            driver = running(cluster, stream, "it has no receivers; ")
            for line in shown(cluster.status(driver, window=0)):
                click.echo(in_a_terminal(line, stream))


def shown(status: Status) -> list[str]:
    """List the receivers and their executors, and those that were away."""
    if status.receivers is None:
        return ["it can't be told where its receivers run"]
    if not status.receivers:
        return ["it has started no receivers"]
    lines = [_line(each, status.now) for each in status.receivers]
    lines.append(f"receivers of executors: {spread(status)}")
    hosts = {each.executor for each in status.receivers}
    if idle := [each.id for each in status.executors if each.id not in hosts]:
        lines.append(f"executors without receivers: {', '.join(idle)}")
    newest = sorted(status.relaunches, key=lambda each: each.began_at)[-RELAUNCHES:]
    return lines + [f"{clock(each.began_at, status.now)} {in_words(each)}" for each in newest]


def _line(receiver: Receiver, now: float) -> str:
    place = "runs nowhere"
    if receiver.executor is not None:
        place = f"executor {receiver.executor} on {receiver.host or 'a host that is not known'}"
        if receiver.since is not None:
            place += f" since {clock(receiver.since, now)}"
    said = [f"receiver {receiver.stream_id}: {place}"]
    if receiver.moving_to is not None:
        said.append(f"on its way to executor {receiver.moving_to}")
    if receiver.rate is not None:
        said.append(f"{number(receiver.rate)} records/s")
    if receiver.error:
        said.append(f"last failed of: {receiver.error}")
    return ", ".join(said)
