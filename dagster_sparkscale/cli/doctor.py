"""`doctor`: what is wrong with this deployment, and what to do about it."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import click
import dagster as dg

from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.cli import dagster_side
from dagster_sparkscale.cli.alerts import of_alerts
from dagster_sparkscale.cli.locations import (
    Deployed,
    Target,
    as_given,
    instance_of_home,
    on_a_target,
)
from dagster_sparkscale.cli.room import without_room
from dagster_sparkscale.cli.words import in_a_terminal
from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.operations import Streams
from dagster_sparkscale.quantities import named
from dagster_sparkscale.remedy import WithRemedy
from dagster_sparkscale.watch.assess import assess_or_say_why
from dagster_sparkscale.watch.collect import Collector
from dagster_sparkscale.watch.fleet import verdict
from dagster_sparkscale.watch.fleet.orphan import Orphan
from dagster_sparkscale.watch.fleet.rows import Row, in_trouble, row, worst_first
from dagster_sparkscale.watch.health import left_running
from dagster_sparkscale.watch.orphans import OrphanSearch
from dagster_sparkscale.watch.sighting import Sighting

DEADLINE = 15.0
"""Seconds for the agents of a cluster to answer."""
NAMED = 10
"""Streams that a line names at most."""


@click.command()
@on_a_target
def doctor(where: Target) -> None:
    """Say what is wrong with this deployment, and what to do. Starts and changes nothing.

    The exit code is 1 if something is wrong.
    """
    wrong, alike = 0, list[Condition]()
    try:
        for each in _all(where):
            # A thousand streams that are well, or that lack the same thing, are one line.
            if alike and _said(each) != _said(alike[0]):
                click.echo(_line_of(alike))
                alike = []
            alike.append(each)
            wrong += each.wrong
    finally:  # also where it can't go on
        if alike:
            click.echo(_line_of(alike))
    if wrong:
        raise click.ClickException(f"{wrong} of these must be mended")


def _said(condition: Condition) -> tuple[str, str | None, bool]:
    return condition.text, condition.cure, condition.urgent


def _line_of(alike: Sequence[Condition]) -> str:
    """The line of conditions of which the same is said."""
    subjects = [*dict.fromkeys(each.subject for each in alike)]
    return _line(replace(alike[0], subject=named(subjects, NAMED)))


def _all(where: Target) -> Iterator[Condition]:
    yield dagster_side.home()
    faults: list[str]
    try:
        deployed, faults = where.load_each()
    except click.ClickException as error:
        deployed, faults = [], [error.message]
    for fault in faults:
        cure = "mend it" if deployed else "mend it, or name another by -f or -m"
        yield Condition("code location", fault, cure)
    try:
        with instance_of_home() as instance:
            try:
                yield dagster_side.of_daemon(instance, time.time())
                yield from dagster_side.of_storage(instance)
                autoscalers = sum(len(each.streams.autoscalers) for each in deployed)
                yield from dagster_side.of_settings(instance, autoscalers)
                for each in deployed:
                    yield from dagster_side.of_sensors(instance, each, time.time())
                    yield from of_alerts(instance, each)
            except Exception as error:  # of whatever database it has
                why = f"can't be asked: {type(error).__name__}: {error}"
                yield Condition("Dagster", why, "mend its storage: see dagster.yaml")
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
            found = list(cluster.conditions(streams))
            yield from found
            try:
                cluster.snapshot()
            except ClusterError:
                # Nothing can be told of any stream. Of most that is why.
                if any(each.wrong for each in found):
                    return
                raise
            yield from _of_drivers(cluster, deployed)
    except (ClusterError, dg.DagsterError) as error:
        yield Condition("cluster", f"{deployed.owner}: can't be used", str(error))


def _of_drivers(cluster: ClusterManager, deployed: Deployed) -> Iterator[Condition]:
    """What the running drivers say, and whether the cluster has room for more."""
    streams, now = deployed.streams, time.time()
    sightings = Collector().collect(cluster, streams, deadline=DEADLINE)
    rows = []
    for each in streams:
        assessment = assess_or_say_why(
            each, sightings[each.name], capabilities=CAPABILITIES, now=now
        )
        sightings[each.name] = assessment.sighting
        rows.append(row(assessment))
    yield from _of_failed(rows)
    yield from _of_orphans(
        OrphanSearch().search(cluster, streams.by_name, deployed.owner, DEADLINE)
    )
    for name, sighting in sightings.items():
        yield from _of_driver(name, sighting, now)
    yield from _of_capacity(cluster, streams, sightings)
    if troubled := [row.stream for row in worst_first(rows) if in_trouble(row)]:
        yield Condition(
            "streams",
            f"{len(troubled)} of {len(rows)} in trouble: {named(troubled, NAMED)}",
            f"`sparkscale status{as_given()}` says what is the matter with each",
            urgent=False,
        )


def _of_driver(name: str, sighting: Sighting, now: float) -> Iterator[Condition]:
    """What one driver says, or why it says nothing."""
    named = f"{name}{as_given()}"
    if sighting.error is not None:
        text = in_a_terminal(sighting.error, name)
        cure = f"see its log: `sparkscale logs {named}`"
        if sighting.driver is not None and sighting.driver.state is DriverState.STARTING:
            cure = (
                f"where it says what it waits for, mend that, then `sparkscale restart {named}`;"
                f" else {cure}"
            )
        yield Condition(name, text, cure)
    elif left := left_running(sighting, now):
        what, cure = (in_a_terminal(WithRemedy(part), name) for part in left.parts)
        yield Condition(name, what.removesuffix(": "), cure)
    elif sighting.status is not None and sighting.status.missing:
        yield Condition(
            name,
            "; ".join(sighting.status.missing),
            f"its driver runs on Spark {sighting.status.spark_version}: give it a release "
            "that is supported",
        )
    elif sighting.status is not None:
        yield Condition(name, f"answers, Spark {sighting.status.spark_version or 'unknown'}")


def _of_capacity(
    cluster: ClusterManager, streams: Streams, sightings: Mapping[str, Sighting]
) -> Iterator[Condition]:
    """Whether the cluster has room for the executors that are to come, and what is free."""
    room = cluster.capacity()
    for name, why in without_room(room, streams, sightings):
        yield Condition(
            name, f"executors: {why}", "add workers, or declare smaller or fewer executors"
        )
    drivers = (sighting.driver for sighting in sightings.values())
    alive = any(driver is not None and driver.state.alive for driver in drivers)
    if room is not None:
        yield Condition(
            "capacity", f"{room.free_cores} of {room.cores} cores free, {room.workers} worker(s)"
        )
    else:
        yield Condition(
            "capacity",
            "can't be told: the cluster does not answer, has not been started, or lets nobody look",
            "see that it runs, and that web_urls names it (an embedded one is started with its "
            "first stream; on Kubernetes, apply deploy/kubernetes/capacity.yaml)",
            urgent=alive and not cluster.CAPACITY_MAY_BE_UNKNOWN,
        )


def _of_failed(rows: Sequence[Row]) -> Iterator[Condition]:
    """A line for those that are given up, and one for those that are to come back."""
    failed = [row for row in rows if row.state == "failed"]
    if given_up := [row.stream for row in failed if row.gave_up]:
        one = f"{given_up[0]}{as_given()}"
        yield Condition(
            verdict.GIVEN_UP,
            f"{named(given_up, NAMED)}: failed, and nothing but a person starts it again",
            f"`sparkscale logs {one}` says why; mend it, then `sparkscale start {one}`",
        )
    if coming := [row.stream for row in failed if not row.gave_up]:
        yield Condition(
            "failed",
            f"{named(coming, NAMED)}: recovery starts it again by itself, with pauses",
            f"`sparkscale logs {coming[0]}{as_given()}` says why it failed; `sparkscale status"
            f"{as_given()}`, when it is started again",
        )


def _of_orphans(found: Sequence[Orphan]) -> Iterator[Condition]:
    """A line for what nobody declares, and one for what may be another's."""
    if ours := [each.driver.stream for each in found if each.ours]:
        yield Condition(
            "orphans",
            f"{named(ours, NAMED)}: runs, and is not declared any more",
            f"declare it again, or `sparkscale forget {ours[0]}{as_given()}`",
        )
    if unknown := [each.driver.stream for each in found if not each.ours]:
        yield Condition(
            "not declared here",
            f"{named(unknown, NAMED)}: runs, and who declares it is not known",
            "declare it, stop it where it is declared, or, where nobody does, `sparkscale forget "
            f"{unknown[0]}{as_given()} --whoever-declares-it`",
            urgent=False,
        )


def _line(condition: Condition) -> str:
    mark, colour = ("ok", "green")
    if condition.cure is not None:
        mark, colour = ("WRONG", "red") if condition.urgent else ("better", "yellow")
    line = f"{click.style(f'{mark:6}', fg=colour)} {condition.subject}: {condition.text}"
    return line if condition.cure is None else f"{line}\n       -> {condition.cure}"
