"""`usage`: the executor-hours of streams, day by day, beside what a fixed size would have cost."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import click
import dagster as dg
from rich.console import Console
from rich.table import Table

from dagster_sparkscale.cli.locations import Target, instance_of_home, on_a_target
from dagster_sparkscale.cli.options import Finite
from dagster_sparkscale.durations import in_units
from dagster_sparkscale.observe.history import each_minute
from dagster_sparkscale.observe.usage import Usage, usage_by_day
from dagster_sparkscale.operations import asset_key

_DAY = 86400.0
_COLUMNS = ("STREAM", "DAY", "EXECUTOR-HOURS", "FIXED SIZE", "LARGEST", "MEASURED")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@click.command()
@click.argument("streams", metavar="[STREAM]...", nargs=-1)
@click.option(
    "--days", metavar="DAYS", type=Finite(0, min_open=True), default=7.0, help="Default: 7."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@on_a_target
def usage(where: Target, streams: tuple[str, ...], days: float, as_json: bool) -> None:
    """Show what the executors of streams have cost, day by day in UTC, by Dagster's event log.

    An executor-hour is one executor for one hour. FIXED SIZE is what the largest number of the
    whole time, kept all along, would have cost in the hours that were measured.
    """
    found = [where.find(name) for name in streams] if streams else where.load()
    wanted = set(streams)
    declared = {
        name: stream
        for deployed in found
        for name, stream in deployed.streams.by_name.items()
        if not wanted or name in wanted
    }
    since = (time.time() - days * _DAY) // _DAY * _DAY
    with instance_of_home() as instance:
        rows = [
            row
            for name, stream in sorted(declared.items())
            for row in _rows(name, _days(instance, asset_key(stream), since))
        ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo(f"nothing was measured within {in_units(days * _DAY)}")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in _COLUMNS:
        table.add_column(title, justify="left" if title in _COLUMNS[:2] else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(_text, row.values()))
    Console(width=None if Console().is_terminal else 100).print(table)


def _days(instance: dg.DagsterInstance, key: dg.AssetKey, since: float) -> list[Usage]:
    try:
        return usage_by_day(each_minute(instance, key, since))
    except LookupError:  # nothing was ever stored of it
        return []


def _rows(name: str, days: list[Usage]) -> Iterator[dict[str, str | float | int]]:
    most = max((day.most for day in days), default=0)
    for day in days:
        yield {
            "stream": name,
            "day": f"{_EPOCH + timedelta(days=day.day):%Y-%m-%d}",
            "executor_hours": round(day.executor_hours, 2),
            "fixed_size_executor_hours": round(day.fixed(most), 2),
            "largest": day.most,
            "measured_hours": round(day.measured_hours, 2),
        }


def _text(value: str | float | int) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)
