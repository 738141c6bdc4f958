"""What Dagster is told of a stream: one event now and then, and what has changed of its checks.

Dagster plots the entries that are numbers, by their keys. What was not measured is left out, which
leaves a gap in the plot; it is never a zero. Overview shows the latest
materialization only, so an event is one when data moved on, or when what Overview shows is not so
any more; else it is an observation. Freshness policies and `eager()` see materializations only.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.backpressure import page as backpressure
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.in_force.limits import not_as_declared
from dagster_sparkscale.kafka import page as kafka
from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.observe import state as states
from dagster_sparkscale.observe.hidden import hidden
from dagster_sparkscale.observe.minutes import Minute, stored
from dagster_sparkscale.operations import asset_key
from dagster_sparkscale.private_dagster import stored_outcomes
from dagster_sparkscale.receivers import page as receivers
from dagster_sparkscale.state import page as query_state
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.checks import dated, severity
from dagster_sparkscale.watch.fleet.rows import Row, bounds_of
from dagster_sparkscale.watch.fleet.text import CRASH_LOOPING, called
from dagster_sparkscale.watch.health import Health
from dagster_sparkscale.watch.memory import StreamMemory
from dagster_sparkscale.watch.page import overview
from dagster_sparkscale.watch.page.occasions import Told, late_from, lesser, occasion, said
from dagster_sparkscale.watch.page.picture import picture
from dagster_sparkscale.watch.page.recent import Recent
from dagster_sparkscale.watch.sighting import Sighting

AGAIN = 3600.0
"""Seconds after which it is looked whether Dagster still has what it was told of checks: somebody
may have run one by hand, or wiped the asset."""

_FOR_HISTORY = "of each minute: see history"

Event = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation


def told(
    instance: DagsterInstance,
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
    minutes = [*memory.minutes, minute]
    memory.advanced |= bool(minute.input_rate)
    shown = called(row)
    max_lag = stream.autoscale.max_lag if stream.autoscale else None
    now = said(
        *(memory.told, minute, shown, late_from(max_lag, stream.batch_interval)),
        receivers.last_relaunch(sighting.status),
    )
    checks = list(changed_checks(stream, assessment, memory, now, sighting.log_tail))
    yield from checks
    failing = [f"{check} {outcome}" for check, outcome in memory.checks.items()]
    now = replace(now, failing=", ".join(sorted(each for each in failing if "failed" in each)))
    why = occasion(
        stream.name,
        memory.told,
        now,
        acts=assessment.acts,
        report_every=stream.report_every,
    )
    if why is None:
        memory.minutes = minutes
        return
    # With an event, which each stream has at a moment of its own: it costs a query. A run that has
    # started a driver, or failed to, has stored checks of its own.
    hourly = minute.at // AGAIN != memory.told.at // AGAIN
    if hourly or (memory.told.headline, memory.told.epoch) != (now.headline, now.epoch):
        # What this tick tells is not stored yet.
        just_told = {each.check_name for each in checks}
        forget_what_is_stored_otherwise(instance, stream, memory, just_told)
        yield from changed_checks(stream, assessment, memory, now, sighting.log_tail)
    wavers = why == lesser(memory.told, now)
    now = replace(now, lesser_at=minute.at if wavers else memory.told.lesser_at)
    shows = shown_by(now, row)
    moved_on = memory.advanced
    # What was never started was never materialized either. What was, and can't be told of now, must
    # not stand there as running.
    if minute.epoch is not None or memory.epoch is not None:
        # Last, for to ask costs as much as to store an event.
        moved_on = moved_on or shows != memory.shown or not _overview_is_ours(instance, stream)
    kind = dg.AssetMaterialization if moved_on else dg.AssetObservation
    driver = sighting.driver
    state = overview.state(row, shown, bounds_of(stream, driver).minimum, driver)
    yield kind(
        asset_key=asset_key(stream),
        description=why,
        metadata={"state": dg.MetadataValue.md(state)}
        # An observation is not what Overview shows.
        | (_overview(stream, sighting, row, recent) if moved_on else {})
        | _numbers(stream, minute, sighting)
        | {MINUTES: dg.MetadataValue.md(hidden(_FOR_HISTORY, stored(minutes)))},
    )
    memory.told, memory.minutes = now, []
    if moved_on:
        memory.shown, memory.advanced = shows, False


def shown_by(now: Told, row: Row) -> str:
    """What must not stand in Overview once it is not so any more. A crash loop counts as one thing:
    its restarts are no data that moves on."""
    if now.headline == CRASH_LOOPING:
        return now.headline
    shown = f"{now.headline} {now.epoch} {now.failing}"
    if now.headline != "running":
        return shown
    shown += f" {now.registered} of {now.requested} {now.receiver}".rstrip()
    # Of a stream without data, why it has no R; but for numbers, which go on, as an age does.
    return shown if row.ratio is not None else f"{shown} {re.sub('[0-9]+', '', row.reason)}"


def _overview_is_ours(instance: DagsterInstance, stream: Stream) -> bool:
    """Whether Overview shows an event of this module: not that of a run which attached to a driver,
    and not nothing, as after a wipe."""
    latest = instance.get_latest_materialization_event(asset_key(stream))
    materialization = latest.asset_materialization if latest else None
    return materialization is not None and MINUTES in materialization.metadata


def _overview(stream: Stream, sighting: Sighting, row: Row, recent: Recent) -> dict[str, Any]:
    record = sighting.driver.record if sighting.driver is not None else None
    pieces = {
        "last hours": picture(recent.buckets),
        "executors": overview.executors(sighting.status.executors if sighting.status else ()),
        "receivers": receivers.of_receivers(sighting.status),
        "receivers that were away": receivers.of_relaunches(sighting.status),
        "limits": backpressure.of_sources(sighting.status),
        "limits that were set": backpressure.set_by(not_as_declared(stream, record)),
        "query state": query_state.of_queries(sighting.status),
        "kafka": kafka.of_queries(sighting.status),
        "decisions": overview.decisions(recent.decided, row.seen_at),
    }
    return {name: dg.MetadataValue.md(text) for name, text in pieces.items() if text}


def _numbers(stream: Stream, minute: Minute, sighting: Sighting) -> dict[str, Any]:
    """What Dagster plots; by their labels' order, so these begin with a number."""
    values: dict[str, float | None] = {
        "1. R": minute.ratio,
        "2. lag (s)": minute.lag,
        "3. executors": minute.registered,
        "4. input (records/s)": minute.input_rate,
    }
    if stream.state is not None:
        status = sighting.status
        values["5. state (rows)"] = states.rows(status) if status else None
        values["6. state (partitions)"] = states.partitions(status) if status else None
    if stream.backpressure is not None:
        values["7. limit (records/s)"] = minute.limit
    if isinstance(stream, DStream) and stream.receivers:
        values["8. receivers"] = minute.receivers
    return {label: value for label, value in values.items() if value is not None}


def forget_what_is_stored_otherwise(
    instance: DagsterInstance, stream: Stream, memory: StreamMemory, but: Collection[str]
) -> None:
    """Take what is stored of a check by others, or was wiped, for what has to be told anew; `but`
    not those of these names."""
    asset = asset_key(stream)
    keys = [dg.AssetCheckKey(asset, check) for check in memory.checks if check not in but]
    if not keys:
        return
    for key, passed in (stored_outcomes(instance, keys) or {}).items():
        if passed != (memory.checks[key.name] == "passed"):
            del memory.checks[key.name]


def changed_checks(
    stream: Stream, assessment: Assessment, memory: StreamMemory, now: Told, log_tail: str
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluations of the health checks whose outcome is not the one stored last, or that failed by
    something new. What wavers around its threshold goes on failing."""
    wavering = {Health.RATIO_BELOW_ONE: now.overloaded, Health.LAG_WITHIN_LIMIT: now.late}
    for health, finding in assessment.health.items():
        failed = memory.checks.get(health.value, "passed") != "passed"
        if finding.passed is None or (finding.passed and failed and wavering.get(health)):
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
            description=dated(finding.text, "since", now.at),
            metadata={"log": log_tail} if log_tail and not finding.passed else {},
        )
