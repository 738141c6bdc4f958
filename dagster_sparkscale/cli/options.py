"""Options of commands: finite numbers, and fields of an operation's config."""

import math
from collections.abc import Callable
from typing import Any

import click

from dagster_sparkscale.operations import OperationConfig

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Finite(click.FloatRange):
    """A finite number in a range: `nan` compares with none, and would pass one."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number.", param, ctx)
        return number


def flag(*names: str, help: str, sets: bool = True) -> Decorator:
    """A flag for a field of a config, which has its default where the flag is not given."""

    def value(_context: click.Context, _option: click.Parameter, given: bool) -> bool | None:
        return sets if given else None

    return click.option(*names, is_flag=True, callback=value, help=help)


def field_option(config: type[OperationConfig], field: str, name: str, **more: Any) -> Decorator:
    """An option for a field of an operation's config, described as the launchpad has it."""
    info = config.model_fields[field]
    if info.annotation is bool:
        return flag(name, field, help=str(info.description))
    default = f" Default: {info.default:g}." if isinstance(info.default, float) else ""
    return click.option(name, field, help=f"{info.description}{default}", **more)


def seconds_option(config: type[OperationConfig], field: str, name: str, **more: Any) -> Decorator:
    """An option for a field of seconds."""
    return field_option(config, field, name, metavar="SECONDS", type=Finite(0, **more))


def _url(_context: click.Context, _option: click.Parameter, given: str) -> str:
    if given and not given.startswith(("http://", "https://")):
        raise click.BadParameter(f'{given!r}: must begin with "http://" or "https://"')
    return given.rstrip("/")


dagster_url_option: Decorator = click.option(
    "--dagster-url",
    metavar="URL",
    default="",
    callback=_url,
    help="Of Dagster's UI, as people's browsers reach it: pages link to it.",
)
