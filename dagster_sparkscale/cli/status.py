"""`status`: all streams of a code location in one table, looked at now."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from time import sleep
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.cli.dagster_side import not_at_work, sensor_of_each
from dagster_sparkscale.cli.locations import (
    Deployed,
    Target,
    instance_of_home,
    on_a_target,
    refuse_unknown,
)
from dagster_sparkscale.cli.options import Finite
from dagster_sparkscale.cli.room import waiting, without_room
from dagster_sparkscale.cli.table import table
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.declare.learner import Learner
from dagster_sparkscale.declare.stream import Stream
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
@click.argument("streams", metavar="[STREAM]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="All that is known, as JSON, once.")
@click.option("--once", is_flag=True, help="One table; also where the output is no terminal.")
@click.option(
    "--every", metavar="SECONDS", type=Finite(1), default=5.0, help="Between two looks. Default: 5."
)
@on_a_target
def status(
    where: Target, streams: tuple[str, ...], as_json: bool, once: bool, every: float
) -> None:
    """Show all streams in a table, the worst first, until interrupted. Changes nothing.

    STREAM is the name of a declared stream, or a pattern such as 'orders_*': only those are looked
    at.

    Decisions are what the policies would decide now: this acts on none.
    """
    deployed = where.load()
    with _watched(deployed, streams) as clusters:
        looked_at = {each.deployed.owner for each in clusters}
        if others := [each.owner for each in deployed if each.owner not in looked_at]:
            # A driver of that name may run there, if its stream was declared there before.
            click.echo(f"not looked at, as none is declared there: {', '.join(others)}", err=True)
        if as_json:
            click.echo(json.dumps([one for each in clusters for one in each.as_dicts()], indent=2))
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
    idle: Mapping[str, Condition]
    """The sensors that are not at work, and why not; empty also where it is not known."""
    unknown: str | None
    """Why that is not known."""
    no_room: Sequence[tuple[str, str]]
    """Streams whose executors can't come, and why."""


@dataclass
class _Watched:
    """A cluster that is looked at again and again."""

    deployed: Deployed
    cluster: ClusterManager
    wanted: Sequence[str]
    """Names and patterns of the streams that are looked at; empty: all."""
    collector: Collector = field(default_factory=Collector)
    orphans: OrphanSearch = field(default_factory=OrphanSearch)

    def wants(self, stream: str) -> bool:
        return _is_wanted(stream, self.wanted)

    @property
    def streams(self) -> list[Stream]:
        """The declared streams that are looked at."""
        return [each for each in self.deployed.streams if self.wants(each.name)]

    @cached_property
    def sensors(self) -> Mapping[str, str]:
        """The sensor that evaluates each declared stream."""
        return sensor_of_each(self.deployed)

    def as_dicts(self) -> Iterator[dict[str, Any]]:
        """All that is known of each stream."""
        found = self.look()
        first = self.deployed.streams.autoscalers[0]
        for each, values in zip(found.rows, as_dicts(found.rows), strict=True):
            sensor = self.sensors.get(each.stream)
            # The first one looks for those that are declared no more.
            why = found.idle.get(sensor or first)
            yield {
                "cluster": self.deployed.owner,
                "sensor": sensor,
                "unwatched": None if why is None else _in_words(why),
                "health": verdict(each),
                **values,
            }

    def look(self) -> _Look:
        streams, now = self.streams, time.time()
        sightings = self.collector.collect(self.cluster, streams, deadline=DEADLINE)
        busy: Mapping[str, InFlight] = {}
        learned: Mapping[str, Learner] = {}
        idle: Mapping[str, Condition] = {}
        unknown = None
        try:
            busy, idle, learned = _of_dagster(self.deployed, streams, self.cluster, now)
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
        of = self.deployed.streams.by_name, self.deployed.owner
        found = self.orphans.search(self.cluster, *of, DEADLINE)
        rows += [orphan_row(each, now=now) for each in found if self.wants(each.driver.stream)]
        capacity = self.cluster.capacity() if waiting(streams, sightings) else None
        no_room = list(without_room(capacity, streams, sightings))
        return _Look(worst_first(rows), idle, unknown, no_room)


@contextmanager
def _watched(deployed: Sequence[Deployed], wanted: Sequence[str]) -> Iterator[list[_Watched]]:
    declared = {name for each in deployed for name in each.streams.by_name}
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in declared):
            refuse_unknown(pattern, deployed)
    with ExitStack() as stack:
        yield [
            _Watched(each, stack.enter_context(each.cluster()), wanted)
            for each in deployed
            if any(_is_wanted(name, wanted) for name in each.streams.by_name)
        ]


def _is_wanted(stream: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(fnmatchcase(stream, each) for each in wanted)


def _of_dagster(
    deployed: Deployed, streams: Sequence[Stream], cluster: ClusterManager, now: float
) -> tuple[Mapping[str, InFlight], Mapping[str, Condition], Mapping[str, Learner]]:
    """The operations in flight, by stream; the sensors that are not at work; and what policies have
    learned, by stream. Refuses to guess where no Dagster would know."""
    if not os.environ.get("DAGSTER_HOME"):
        raise click.ClickException("no DAGSTER_HOME is set")
    names = {stream.name for stream in streams}
    with instance_of_home() as instance:
        busy = in_flight(instance, deployed.streams.cluster_key, cluster, now, names)
        idle = not_at_work(instance, deployed, now)
        learned = learned_so_far(instance, streams, now, READING)
    return busy, idle, learned


def _in_words(why: Condition) -> str:
    return f"{why.subject}: {why.text}; {why.cure}"


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
        # Of another Dagster, or by another name of the code location, somebody may.
        causes = Counter(
            _in_words(why)
            for stream in each.streams
            if (why := found.idle.get(each.sensors[stream.name])) is not None
        )
        for cause, count in causes.items():
            which = "" if count == len(each.streams) else f"{count} of "
            text = f"By this DAGSTER_HOME nobody watches {which}these streams. {cause}"
            parts.append(Text(text, style="red"))
        if found.unknown is not None:
            parts.append(Text(f"Whether anybody watches them is not known: {found.unknown}"))
    return Group(*parts)
