"""`explain`: why a stream has the number of executors that it has, with the sum."""

import time
from collections.abc import Iterator

import click

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.autoscale.steps import round_half_up
from dagster_sparkscale.capabilities import CAPABILITIES
from dagster_sparkscale.cli.locations import Target, on_a_target
from dagster_sparkscale.cli.room import waiting, without_room
from dagster_sparkscale.cli.words import in_a_terminal
from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.quantities import counted
from dagster_sparkscale.state.page import of_state
from dagster_sparkscale.watch.assess import Assessment, assess_or_say_why
from dagster_sparkscale.watch.fleet.behind import behind
from dagster_sparkscale.watch.fleet.rows import Row, row
from dagster_sparkscale.watch.fleet.verdict import lasting
from dagster_sparkscale.watch.sighting import look, of_another

DEADLINE = 10.0
"""Seconds for the agent to answer."""


@click.command()
@click.argument("name", metavar="STREAM")
@on_a_target
def explain(where: Target, name: str) -> None:
    """Say why a stream has as many executors as it has: R and how it comes about, the thresholds
    and bounds, what is decided of it now, what steers it, and why executors do not come. Say also
    how much state its queries have, and how far a change of it is, or what came of the last one.

    Looks at the stream as `status` does, and changes nothing. A policy that learns from the minutes
    is not asked: its decisions, with their sums, are among `sparkscale events`.
    """
    deployed = where.find(name)
    stream = deployed.streams.by_name[name]
    with deployed.cluster() as cluster:
        sighting = of_another(look(cluster, stream, timeout=DEADLINE), stream, deployed.owner)
        sightings = {name: sighting}
        asked = cluster.capacity() if waiting([stream], sightings) else None
        room = list(without_room(asked, [stream], sightings))
    found = assess_or_say_why(stream, sighting, capabilities=CAPABILITIES, now=time.time())
    for title, text in _lines(found, row(found)):
        click.echo(in_a_terminal(f"{title + ':':11} {text}", name))
    for _, why in room:
        click.echo(f"{'no room:':11} {why}")


def _lines(found: Assessment, line: Row) -> Iterator[tuple[str, str]]:
    seen, stream = found.evaluation, found.situation.stream
    yield "health", lasting(line) + (f": {line.note}" if line.note else "")
    if seen is not None:
        yield "executors", _executors(seen)
        yield "R", _ratio(seen)
        yield "behind", behind(line)
    yield "policy", _policy(found)
    yield "bounds", _bounds(found)
    for each in line.steering:
        yield "steering", each
    if line.ahead:
        yield "calendar", line.ahead
    if found.situation.status is not None:
        for each in of_state(found.situation.status, stream.state):
            yield "state", each
    if stream.autoscale is not None or found.decision.operation:
        yield "decision", f"{found.decision}: {found.decision.reason}"


def _executors(seen: Evaluation) -> str:
    if seen.registered is None or seen.staying is None or seen.requested is None:
        return "not known: Spark has not answered its agent"
    text = f"{seen.registered} registered"
    if seen.removing:
        text += f", of which {seen.removing} leave"
    missing = seen.requested - seen.staying
    text += f"; {seen.requested} asked for"
    return f"{text}, {counted(missing, 'executor')} to come" if missing > 0 else text


def _ratio(seen: Evaluation) -> str:
    if seen.ratio is not None and seen.processing_ms is not None and seen.batch_interval:
        return (
            f"{seen.ratio:.2f} = {seen.processing_ms / 1000:.3g} s mean processing time / "
            f"{seen.batch_interval:g} s batch interval, of query {seen.query!r} in the last "
            f"{seen.window:g} s"
        )
    if seen.stalled is not None and seen.stalled_for is not None:
        ran = f"the one in progress has run for {seen.stalled_for:.0f} s"
        return f"{seen.stalled:.2f} stands in: no batch completes, and {ran}"
    return f"not known: {seen.silence or 'nothing was measured'}"


def _policy(found: Assessment) -> str:
    policy, seen = found.situation.stream.autoscale, found.evaluation
    if policy is None:
        return "none: nothing but a person changes the number"
    text = type(policy).__name__
    if not isinstance(policy, RatioPolicy):
        return text
    text += f": more from R {policy.scale_up_ratio:g} on, one less at {policy.scale_down_ratio:g}"
    if seen is None or seen.staying is None or seen.ratio is None or seen.throttled is not None:
        return text
    if seen.ratio < policy.scale_up_ratio or not isinstance(found.decision, ScaleTo):
        return text
    wanted = seen.staying + max(1, round_half_up(seen.ratio))
    within = found.situation.bounds.aim(wanted)
    if found.decision.target != within:  # decided by something else than R
        return text
    added = f"{seen.staying} that stay + R {seen.ratio:.2f} rounded, at least 1, = {wanted}"
    return f"{text}; {added}" + (f", within the bounds {within}" if within != wanted else "")


def _bounds(found: Assessment) -> str:
    bounds = found.situation.bounds
    most = "as many as the cluster has" if bounds.maximum is None else str(bounds.maximum)
    notes = (bounds.minimum_note, bounds.note, bounds.useful_note, bounds.least_note)
    return "; ".join((f"{bounds.minimum} to {most}", *filter(None, notes)))
