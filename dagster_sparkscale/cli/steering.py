"""`pin`, `pause`, `advise`, `freeze`, `bounds` and `resume`: how far a stream may be changed by
itself, each a run of the job `steer`."""

import time
from collections.abc import Callable
from typing import Any

import click

from dagster_sparkscale.autoscale.steer import duration, to_come
from dagster_sparkscale.autoscale.steer_job import SteerConfig
from dagster_sparkscale.cli.changes import reason_option, stream_argument
from dagster_sparkscale.cli.locations import Target, on_a_target
from dagster_sparkscale.cli.options import field_option
from dagster_sparkscale.cli.runs import carry_out
from dagster_sparkscale.clusters.records.overtaking import STEER
from dagster_sparkscale.clusters.records.steering import KINDS


def _checked(check: Callable[[str], float]) -> Callable[..., str | None]:
    """The check of an option's text: what can't be is not understood, before a run is made of
    it."""

    def callback(_context: Any, _option: click.Parameter, value: str | None) -> str | None:
        try:
            if value is not None:
                check(value)
        except ValueError as error:
            raise click.BadParameter(f"{value!r}: {error}") from None
        return value

    return callback


def _ends(text: str) -> float:
    return to_come(text, time.time())


def _for_a_while(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        reason_option,
        field_option(SteerConfig, "until", "--until", metavar="TIME", callback=_checked(_ends)),
        click.option(
            *("--for", "lasts"),
            metavar="DURATION",
            callback=_checked(duration),
            help=_described("lasts"),
        ),
    ):
        command = option(command)
    return stream_argument(command)


def _described(field: str) -> str:
    return str(SteerConfig.model_fields[field].description)


def _command(action: str, what: str, *own: Callable[..., Any]) -> click.Command:
    """The command that sets an entry of a kind.

    Args:
        what: its help.
        own: arguments and options that no other kind has, in order.
    """

    @on_a_target
    def steer(where: Target, stream: str, **config: Any) -> None:
        carry_out(where.find(stream), STEER, stream, {"action": action, **config})

    for option in reversed(own):
        steer = option(steer)
    return click.command(action, help=what)(_for_a_while(steer))


@click.command()
@stream_argument
@click.argument("kinds", metavar="[KIND]...", type=click.Choice(KINDS), nargs=-1)
@reason_option
@on_a_target
def resume(where: Target, stream: str, kinds: tuple[str, ...], **config: Any) -> None:
    """End what steers STREAM: all of it, or these kinds, such as pin."""
    config |= {"action": "resume", "kinds": list(kinds)}
    carry_out(where.find(stream), STEER, stream, config)


STEERING = (
    _command(
        "pin",
        "Keep the number of executors of STREAM at N, whatever its policy decides.",
        click.argument("size", metavar="N", type=int),
    ),
    _command("pause", "Keep the number of executors of STREAM as it is. All else goes on."),
    _command("advise", "Decide for STREAM, show it, and do nothing."),
    _command("freeze", "Change nothing of STREAM by itself, but start it again where it fails."),
    _command(
        "bounds",
        "Have the executors of STREAM move between other numbers than declared.",
        field_option(SteerConfig, "minimum", "--min", metavar="N", type=int),
        field_option(SteerConfig, "maximum", "--max", metavar="N", type=int),
    ),
    resume,
)
