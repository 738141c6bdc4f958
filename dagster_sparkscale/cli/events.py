"""`events`: what happened to a stream, by whom and why, as its page has it."""

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime

import click

from dagster_sparkscale.cli.locations import Target, instance_of_home, on_a_target
from dagster_sparkscale.cli.options import Finite
from dagster_sparkscale.cli.words import in_a_terminal
from dagster_sparkscale.observe.history import history
from dagster_sparkscale.operations import asset_key
from dagster_sparkscale.watch.page.operated import ended
from dagster_sparkscale.watch.page.timeline import timeline

_HOUR = 3600.0
_MOST_HOURS = 24 * 3650.0


@click.command()
@click.argument("name", metavar="STREAM")
@click.option(
    "--hours",
    metavar="HOURS",
    type=Finite(0, _MOST_HOURS, min_open=True),
    default=24.0,
    help="How far back. Default: 24.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@on_a_target
def events(where: Target, name: str, hours: float, as_json: bool) -> None:
    """Show what happened to a stream, the newest last: what was decided and what came of it, what
    people and schedules did, with who and why, and what changed by itself. Times are UTC.
    """
    deployed = where.find(name)
    stream, since = deployed.streams.by_name[name], time.time() - hours * _HOUR
    with instance_of_home() as instance:
        runs = ended(instance, deployed.streams.cluster_key, since, name)
        try:
            minutes = history(instance, asset_key(stream), since)
        except LookupError:  # nobody has looked at it yet
            minutes = []
    found = timeline(minutes, runs)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    if not found:
        click.echo(f"nothing is stored of {name} within {hours:g} h")
        return
    width = max(len(each.who) for each in found)
    for each in found:
        at = f"{datetime.fromtimestamp(each.at, UTC):%m-%d %H:%M:%S}"
        run = f"  (run {each.run_id[:8]})" if each.run_id else ""
        line = in_a_terminal(f"{at}  {each.who:{width}}  {each.what}{run}", name)
        click.echo(click.style(line, fg="red") if each.failed else line)
