"""`logs`: what a stream's driver writes, through whatever cluster manager runs it."""

import time
from collections.abc import Iterator
from contextlib import suppress

import click

from dagster_sparkscale.cli.locations import Target, as_given, on_a_target
from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState

LINES = 2000
"""Lines looked at anew each time: as many may come between two looks."""
PAUSE = 1.0


@click.command()
@click.argument("stream")
@click.option("-n", "--lines", type=click.IntRange(1), default=50, help="Lines to begin with.")
@click.option(
    "--follow", is_flag=True, help="Go on with what comes, over restarts, until STREAM is stopped."
)
@on_a_target
def logs(where: Target, stream: str, lines: int, follow: bool) -> None:
    """Show the last lines of the log of STREAM's driver."""
    with where.remembering(stream).cluster() as cluster:
        driver = cluster.find(stream)
        if driver is None:
            raise click.ClickException(
                f"{stream!r} was never started: there is no log (`sparkscale start "
                f"{stream}{as_given()}`)"
            )
        click.echo(_about(driver), err=True)
        if not follow:
            if text := cluster.logs(driver, lines):
                click.echo(text)
            return
        with suppress(KeyboardInterrupt):
            for line in followed(cluster, driver, lines):
                click.echo(line)


def followed(cluster: ClusterManager, driver: Driver, lines: int) -> Iterator[str]:
    """The log of a stream's drivers, one after the other, until one is stopped on request."""
    tail = cluster.logs(driver, LINES).splitlines()
    yield from tail[-lines:]
    while True:
        # Found first: what it wrote before it ended is then in the log that is read.
        found = cluster.find(driver.stream) or driver
        before, tail = tail, cluster.logs(driver, LINES).splitlines()
        yield from fresh(before, tail)
        if found.epoch != driver.epoch:
            driver, tail = found, []
            click.echo(_about(driver), err=True)
        elif found.state is DriverState.STOPPED:
            click.echo(_about(found), err=True)
            return
        else:
            time.sleep(PAUSE)


def _about(driver: Driver) -> str:
    why = f" ({driver.exit_reason})" if driver.exit_reason else ""
    return f"driver {driver.epoch} of {driver.stream} is {driver.state.value}{why}, {driver.where}"


def fresh(before: list[str], now: list[str]) -> list[str]:
    """The lines of `now`, a log's last ones, that have come since `before` was read. Only the end
    of a log can be read.

    A last line that was read while it was written comes again as a whole.
    """
    for left in range(len(before)):
        kept = len(before) - left
        if now[:kept] == before[left:]:
            return now[kept:]
        last = kept - 1
        if now[:last] == before[left:-1] and now[last:] and now[last].startswith(before[-1]):
            return now[last:]
    return now
