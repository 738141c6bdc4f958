"""`doctor`: what is wrong with this deployment, and what to do about it."""

import time
from collections.abc import Iterator

import click
import dagster as dg

from dagster_sparkscale.cli import dagster_side
from dagster_sparkscale.cli.locations import Deployed, Target, instance_of_home, on_a_target
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.watch.collect import Collector
from dagster_sparkscale.watch.health import left_running

DEADLINE = 15.0
"""Seconds for the agents of a cluster to answer."""


@click.command()
@on_a_target
def doctor(where: Target) -> None:
    """Say what is wrong with this deployment, and what to do. Starts and changes nothing.

    The exit code is 1 if something is wrong.
    """
    wrong = 0
    for condition in _all(where):
        click.echo(_line(condition))
        wrong += condition.wrong
    if wrong:
        raise click.ClickException(f"{wrong} of these must be mended")


def _all(where: Target) -> Iterator[Condition]:
    yield dagster_side.home()
    try:
        deployed = where.load()
    except click.ClickException as error:
        yield Condition("code location", error.message, "see above, and name it by -f or -m")
        deployed = []
    try:
        with instance_of_home() as instance:
            yield from dagster_side.of_instance(instance, time.time())
            for each in deployed:
                yield dagster_side.of_sensor(instance, each, time.time())
    except click.ClickException as error:
        if not dagster_side.home().wrong:
            yield Condition("dagster.yaml", error.message, "mend it")
    for each in deployed:
        yield from _of_cluster(each)


def _of_cluster(deployed: Deployed) -> Iterator[Condition]:
    streams = list(deployed.streams)
    yield Condition("cluster", f"{deployed.owner}, {len(streams)} stream(s)")
    try:
        with deployed.cluster() as cluster:
            yield from cluster.conditions(streams)
            yield from _of_drivers(cluster, deployed)
    except (ClusterError, dg.DagsterError) as error:
        yield Condition("cluster", f"{deployed.owner}: can't be used", str(error))


def _of_drivers(cluster: ClusterManager, deployed: Deployed) -> Iterator[Condition]:
    """What the running drivers say, and whether the cluster has room for more."""
    sightings = Collector().collect(cluster, deployed.streams, deadline=DEADLINE)
    alive = 0
    for name, sighting in sightings.items():
        alive += sighting.driver is not None and sighting.driver.state.alive
        if sighting.error is not None:
            yield Condition(name, sighting.error, f"see its log: `sparkscale logs {name}`")
        elif left := left_running(sighting, time.time()):
            what, _, cure = left.rpartition(": ")
            yield Condition(name, what, cure)
        elif sighting.status is not None and sighting.status.missing:
            yield Condition(
                name,
                "; ".join(sighting.status.missing),
                f"its driver runs on Spark {sighting.status.spark_version}: give it a release "
                "that is supported",
            )
        elif sighting.status is not None:
            yield Condition(name, f"answers, Spark {sighting.status.spark_version or 'unknown'}")
    room = cluster.capacity()
    if room is not None:
        yield Condition(
            "capacity", f"{room.free_cores} of {room.cores} cores free, {room.workers} worker(s)"
        )
    else:
        yield Condition(
            "capacity",
            "can't be told: the master does not answer, or has not been started",
            "see that it runs, and that web_urls names it (an embedded one is started with its "
            "first stream)",
            urgent=alive > 0,
        )


def _line(condition: Condition) -> str:
    mark, colour = ("ok", "green")
    if condition.cure is not None:
        mark, colour = ("WRONG", "red") if condition.urgent else ("better", "yellow")
    line = f"{click.style(f'{mark:6}', fg=colour)} {condition.subject}: {condition.text}"
    return line if condition.cure is None else f"{line}\n       -> {condition.cure}"
