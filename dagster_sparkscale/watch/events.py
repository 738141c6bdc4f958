"""What Dagster is told of a stream: one event now and then, and what has changed of its checks.

An event has the same keys each time, so that Dagster plots those that are numbers. A value that was
not measured is null and leaves a gap in the plot; it is never a zero. Overview shows the latest
materialization only, so an event is one when data moved on, or when what Overview shows is not so
any more; else it is an observation. Freshness policies and `eager()` see materializations only.
"""

import json
from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.observe.minutes import Minute, pack
from dagster_sparkscale.operations import asset_key
from dagster_sparkscale.watch import glance
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.checks import dated, severity
from dagster_sparkscale.watch.fleet import Row
from dagster_sparkscale.watch.memory import StreamMemory
from dagster_sparkscale.watch.occasions import late_from, occasion, said
from dagster_sparkscale.watch.picture import picture
from dagster_sparkscale.watch.recent import Recent
from dagster_sparkscale.watch.sighting import Sighting

Event = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation


def told(
    stream: Stream,
    assessment: Assessment,
    sighting: Sighting,
    row: Row,
    minute: Minute,
    memory: StreamMemory,
    recent: Recent,
) -> Iterator[Event]:
    """What Dagster is told of a look at a stream.

    Args:
        minute: of this look; it is in `recent` already.
        memory: what Dagster has been told before, and the minutes it has not been told of.
    """
    checks = list(changed_checks(stream, assessment, memory, sighting.log_tail, minute.at))
    yield from checks
    minutes = [*memory.minutes, minute]
    memory.advanced |= bool(minute.input_rate)
    shown = glance.headline(row, sighting.driver, minute.at)
    max_lag = stream.autoscale.max_lag if stream.autoscale else None
    now = said(memory.told, minute, shown, late_from(max_lag, stream.batch_interval))
    why = occasion(
        stream.name,
        memory.told,
        now,
        acts=assessment.acts,
        checks=bool(checks),
        report_every=stream.report_every,
    )
    if why is None:
        memory.minutes = minutes
        return
    # A stream that is seen no more must not go on being shown with the numbers it had.
    looked = shown if sighting.status is not None else f"{shown}, no status"
    # What was never started was never materialized either.
    moved_on = memory.advanced or (minute.epoch is not None and looked != memory.shown)
    kind = dg.AssetMaterialization if moved_on else dg.AssetObservation
    state = glance.state(row, shown, stream.bounds.minimum, sighting.driver)
    yield kind(
        asset_key=asset_key(stream),
        description=why,
        metadata={"state": dg.MetadataValue.md(state)}
        # An observation is not what Overview shows.
        | (_overview(sighting, row, recent) if moved_on else {})
        | _numbers(minute)
        # With spaces, at which Dagster's page can break it: else all of Overview is as wide.
        | {MINUTES: json.dumps(pack(minutes), separators=(", ", ":"))},
    )
    memory.told, memory.minutes = now, []
    if moved_on:
        memory.shown, memory.advanced = looked, False


def _overview(sighting: Sighting, row: Row, recent: Recent) -> dict[str, Any]:
    pieces = {
        "last hours": picture(recent.buckets),
        "executors": glance.executors(sighting.status.executors if sighting.status else ()),
        "decisions": glance.decisions(recent.decided, row.seen_at),
    }
    return {name: dg.MetadataValue.md(text) for name, text in pieces.items() if text}


def _numbers(minute: Minute) -> dict[str, Any]:
    """What Dagster plots; by their labels' order, so these begin with a number."""
    values = {
        "1. R": minute.ratio,
        "2. lag (s)": minute.lag,
        "3. executors": minute.registered,
        "4. input (records/s)": minute.input_rate,
    }
    return {
        label: dg.MetadataValue.null() if value is None else value
        for label, value in values.items()
    }


def changed_checks(
    stream: Stream, assessment: Assessment, memory: StreamMemory, log_tail: str, now: float
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluations of the health checks whose outcome is not the one stored last, or that failed by
    something new."""
    for health, finding in assessment.health.items():
        if finding.passed is None:
            continue
        outcome = "passed" if finding.passed else f"failed {finding.mark}".rstrip()
        if memory.checks.get(health.value) == outcome:
            continue
        memory.checks[health.value] = outcome
        yield dg.AssetCheckEvaluation(
            asset_key=asset_key(stream),
            check_name=health.value,
            passed=finding.passed,
            severity=severity(finding),
            description=dated(finding.text, "since", now),
            metadata={"log": log_tail} if log_tail and not finding.passed else {},
        )
