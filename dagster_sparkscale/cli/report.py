"""`report`: the page of a stream as one file, which opens without a server."""

import os
import time
from pathlib import Path
from typing import Any

import click

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.cli.dagster_side import last_tick, pending_minutes
from dagster_sparkscale.cli.locations import Target, instance_of_home, on_a_target
from dagster_sparkscale.cli.options import dagster_url_option
from dagster_sparkscale.durations import in_units, parse_duration
from dagster_sparkscale.serve.event_log import EventLog
from dagster_sparkscale.serve.fleet import Fleet, Watched
from dagster_sparkscale.serve.page import stream_html
from dagster_sparkscale.serve.page.files import static
from dagster_sparkscale.serve.page.reading import Reader
from dagster_sparkscale.serve.page.site import page_of

READING = 120.0
"""Seconds for the event log."""
LONGEST = 366 * 86400.0


class _Span(click.ParamType):  # type: ignore[type-arg]
    name = "span"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}, or 7d", param, ctx)
        if not 60 <= seconds <= LONGEST:
            self.fail(f"{value!r}: must be at least 1min and at most 366d", param, ctx)
        return seconds


@click.command()
@click.argument("name", metavar="STREAM")
@click.option(
    "--since",
    metavar="SPAN",
    type=_Span(),
    default=7 * 86400.0,
    help="How far back, such as 6h or 28d. Default: 7d.",
)
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file. Default: STREAM.html in the current folder.",
)
@dagster_url_option
@on_a_target
def report(where: Target, name: str, since: float, output: Path | None, dagster_url: str) -> None:
    """Write the page of a stream into one HTML file: charts, rescales, what is not known.

    Needs no server and loads nothing: it can be sent. Changes nothing of the stream.
    """
    deployed = where.find(name)
    file = Path(f"{name}.html") if output is None else output
    if not file.parent.is_dir():
        raise click.UsageError(f"--output: {str(file.parent)!r} is no folder")
    with deployed.cluster() as cluster:
        watched = Watched(
            *(deployed.owner, deployed.streams, cluster),
            last_tick=lambda instance: last_tick(instance, deployed),
            log=EventLog(time.time()),
            pending=lambda instance: pending_minutes(instance, deployed),
        )
        fleet = Fleet([watched], CAPABILITIES, instance_of_home, 0.0, lambda _: None)
        (look,) = fleet.look().clusters
        now = time.time()
        page = page_of(
            *(fleet, look, name, Reader(), instance_of_home),
            now=now,
            since=now - since,
            shown=in_units(since),
            seconds=READING,
        )
    # Beside it first: where the disk is full, a report that was there before stays as it was.
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_text(stream_html.report(page, static(), dagster_url), encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise click.UsageError(f"--output: {str(file)!r}: {error.strerror}") from error
    click.echo(file)
