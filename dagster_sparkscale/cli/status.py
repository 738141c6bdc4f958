"""`status`: all streams of a code location in one table, looked at now."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from time import sleep

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.cli.dagster_side import Unwatched, unwatched
from dagster_sparkscale.cli.locations import Deployed, Target, instance_of_home, on_a_target
from dagster_sparkscale.cli.options import Finite
from dagster_sparkscale.cli.room import waiting, without_room
from dagster_sparkscale.cli.table import table
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.declare.learner import Learner
from dagster_sparkscale.in_flight import InFlight, in_flight
from dagster_sparkscale.watch.assess import assess_or_say_why
from dagster_sparkscale.watch.collect import Collector
from dagster_sparkscale.watch.fleet.rows import (
    Row,
    as_dicts,
    in_trouble,
    orphan_row,
    row,
    worst_first,
)
from dagster_sparkscale.watch.fleet.verdict import verdict
from dagster_sparkscale.watch.learners import learned_so_far
from dagster_sparkscale.watch.orphans import OrphanSearch
from dagster_sparkscale.watch.sighting import of_another

DEADLINE = 10.0
"""Seconds for the agents of a cluster to answer."""
READING = 2.0
"""Seconds for what policies have learned."""
PIPED = 160
"""Columns of what is not written to a terminal."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="All that is known, as JSON, once.")
@click.option("--once", is_flag=True, help="One table; also where the output is no terminal.")
@click.option(
    "--every", metavar="SECONDS", type=Finite(1), default=5.0, help="Between two looks. Default: 5."
)
@on_a_target
def status(where: Target, as_json: bool, once: bool, every: float) -> None:
    """Show all streams in a table, the worst first, until interrupted. Changes nothing.

    Decisions are what the policies would decide now: this acts on none.
    """
    with _watched(where.load()) as clusters:
        if as_json:
            rows = []
            for each in clusters:
                found = each.look()
                watched = each.deployed.streams.by_name.keys() - found.nobodys
                for row, values in zip(found.rows, as_dicts(found.rows), strict=True):
                    why = None if row.stream in watched else found.unwatched
                    rows.append(
                        {
                            "cluster": each.deployed.owner,
                            "unwatched": why,
                            "health": verdict(row),
                            **values,
                        }
                    )
            click.echo(json.dumps(rows, indent=2))
            return
        console = Console()
        if not console.is_terminal:
            console.width = PIPED
        if once or not console.is_terminal:
            console.print(_page(clusters, console))
            return
        # Interrupting it is how it ends.
        with (
            suppress(KeyboardInterrupt),
            Live(_page(clusters, console), console=console, auto_refresh=False) as live,
        ):
            while True:
                sleep(every)
                live.update(_page(clusters, console), refresh=True)


@dataclass(frozen=True)
class _Look:
    """What one look at a cluster brought."""

    rows: Sequence[Row]
    unwatched: str | None
    """Why nobody watches some of its streams, and what to do; None: somebody does, or it is not
    known."""
    nobodys: frozenset[str]
    """The streams that nobody watches."""
    unknown: str | None
    """Why that is not known."""
    no_room: Sequence[tuple[str, str]]
    """Streams whose executors can't come, and why."""


@dataclass
class _Watched:
    """A cluster that is looked at again and again."""

    deployed: Deployed
    cluster: ClusterManager
    collector: Collector = field(default_factory=Collector)
    orphans: OrphanSearch = field(default_factory=OrphanSearch)

    def look(self) -> _Look:
        streams, now = self.deployed.streams, time.time()
        sightings = self.collector.collect(self.cluster, streams, deadline=DEADLINE)
        busy: Mapping[str, InFlight] = {}
        learned: Mapping[str, Learner] = {}
        lonely = unknown = None
        try:
            busy, lonely, learned = _of_dagster(self.deployed, self.cluster, now)
        except click.ClickException as error:
            unknown = error.message
        except Exception as error:  # of whatever database it has: the table goes on
            unknown = f"{type(error).__name__}: {error}"
        rows = []
        for stream in streams:
            sighting = of_another(sightings[stream.name], stream, self.deployed.owner)
            run = busy.get(stream.name)
            operation = None if run is None else str(run)
            assessment = assess_or_say_why(
                *(stream, sighting),
                capabilities=CAPABILITIES,
                now=now,
                operation=operation,
                learner=learned.get(stream.name),
            )
            rows.append(row(assessment, operation=operation))
        found = self.orphans.search(self.cluster, streams.by_name, self.deployed.owner, DEADLINE)
        rows += [orphan_row(each, now=now) for each in found]
        capacity = self.cluster.capacity() if waiting(streams, sightings) else None
        no_room = list(without_room(capacity, streams, sightings))
        why, nobodys = None, frozenset[str]()
        if lonely is not None:
            cause, nobodys = lonely.why, lonely.streams
            why = f"{cause.subject}: {cause.text}; {cause.cure}"
        return _Look(worst_first(rows), why, nobodys, unknown, no_room)


@contextmanager
def _watched(deployed: Sequence[Deployed]) -> Iterator[list[_Watched]]:
    with ExitStack() as stack:
        yield [_Watched(each, stack.enter_context(each.cluster())) for each in deployed]


def _of_dagster(
    deployed: Deployed, cluster: ClusterManager, now: float
) -> tuple[Mapping[str, InFlight], Unwatched | None, Mapping[str, Learner]]:
    """The operations in flight, by stream; which streams nobody watches; and what policies have
    learned, by stream. Refuses to guess where no Dagster would know."""
    if not os.environ.get("DAGSTER_HOME"):
        raise click.ClickException("no DAGSTER_HOME is set")
    with instance_of_home() as instance:
        busy = in_flight(instance, deployed.streams.cluster_key, cluster, now)
        lonely = unwatched(instance, deployed, now)
        learned = learned_so_far(instance, deployed.streams, now, READING)
    return busy, lonely, learned


def _page(clusters: Sequence[_Watched], console: Console) -> Group:
    width = console.width if console.is_terminal else None
    parts: list[RenderableType] = []
    for each in clusters:
        found = each.look()
        rows = found.rows
        bad = sum(map(in_trouble, rows))
        at = time.strftime("%H:%M:%S")
        title = f"{each.deployed.owner} at {at}: {bad} of {len(rows)} in trouble"
        parts += [Text(title, style="bold"), table(rows, width)]
        parts += [Text(f"{name}: {why}", style="yellow") for name, why in found.no_room]
        if found.unwatched is not None:
            # Of another Dagster, or by another name of the code location, somebody may.
            of = len(each.deployed.streams.by_name)
            which = "" if len(found.nobodys) == of else f"{len(found.nobodys)} of "
            text = f"By this DAGSTER_HOME nobody watches {which}these streams. {found.unwatched}"
            parts.append(Text(text, style="red"))
        elif found.unknown is not None:
            parts.append(Text(f"Whether anybody watches them is not known: {found.unknown}"))
    return Group(*parts)
