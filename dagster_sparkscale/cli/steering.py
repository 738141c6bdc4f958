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


def _steer(where: Target, stream: str, action: str, config: dict[str, Any]) -> None:
    carry_out(where.find(stream), STEER, stream, {"action": action, **config})


@click.command()
@_for_a_while
@click.argument("size", metavar="N", type=int)
@on_a_target
def pin(where: Target, stream: str, **config: Any) -> None:
    """Keep the number of executors of STREAM at N, whatever its policy decides."""
    _steer(where, stream, "pin", config)


@click.command()
@_for_a_while
@on_a_target
def pause(where: Target, stream: str, **config: Any) -> None:
    """Keep the number of executors of STREAM as it is. All else goes on."""
    _steer(where, stream, "pause", config)


@click.command()
@_for_a_while
@on_a_target
def advise(where: Target, stream: str, **config: Any) -> None:
    """Decide for STREAM, show it, and do nothing."""
    _steer(where, stream, "advise", config)


@click.command()
@_for_a_while
@on_a_target
def freeze(where: Target, stream: str, **config: Any) -> None:
    """Change nothing of STREAM by itself, but start it again where it fails."""
    _steer(where, stream, "freeze", config)


@click.command()
@_for_a_while
@field_option(SteerConfig, "minimum", "--min", metavar="N", type=int)
@field_option(SteerConfig, "maximum", "--max", metavar="N", type=int)
@on_a_target
def bounds(where: Target, stream: str, **config: Any) -> None:
    """Have the executors of STREAM move between other numbers than declared."""
    _steer(where, stream, "bounds", config)


@click.command()
@stream_argument
@click.argument("kinds", metavar="[KIND]...", type=click.Choice(KINDS), nargs=-1)
@reason_option
@on_a_target
def resume(where: Target, stream: str, kinds: tuple[str, ...], **config: Any) -> None:
    """End what steers STREAM: all of it, or these kinds, such as pin."""
    _steer(where, stream, "resume", {"kinds": list(kinds), **config})


STEERING = (pin, pause, advise, freeze, bounds, resume)
