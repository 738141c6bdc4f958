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

from dagster_sparkscale.capability import Capabilities
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.markdown import hidden
from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.minutes import Minute, stored
from dagster_sparkscale.operations import asset_key
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.checks import dated, severity
from dagster_sparkscale.watch.fleet.rows import Row
from dagster_sparkscale.watch.fleet.verdict import CRASH_LOOPING, IN_MAINTENANCE, headline
from dagster_sparkscale.watch.marks import mark, same
from dagster_sparkscale.watch.memory import Reported, StreamMemory
from dagster_sparkscale.watch.page import overview
from dagster_sparkscale.watch.page.occasions import (
    OPERATED,
    has_come,
    late_from,
    lesser,
    occasion,
    said,
)
from dagster_sparkscale.watch.page.operated import news_of
from dagster_sparkscale.watch.page.outcomes import Outcomes
from dagster_sparkscale.watch.page.picture import picture
from dagster_sparkscale.watch.page.recent import Recent

AGAIN = 3600.0
"""Seconds after which it is looked whether Dagster still has what it was told of checks: somebody
may have run one by hand, or wiped the asset."""

NO_LIMIT_SET = "no limit that was set is in force any more"
_FOR_HISTORY = "for history()"

Event = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation


def events_of(
    instance: DagsterInstance,
    capabilities: Capabilities,
    assessment: Assessment,
    row: Row,
    minute: Minute,
    memory: StreamMemory,
    recent: Recent,
    outcomes: Outcomes,
) -> Iterator[Event]:
    """The events of a look at a stream.

    Args:
        outcomes: what Dagster has stored of checks.
        minute: of this look; it is in `recent` already.
        memory: what earlier events have said, and the minutes that are in none. It is brought up to
            date when all events are taken.
    """
    stream = assessment.situation.stream
    memory.advanced |= bool(minute.input_rate)
    now = _said_now(capabilities, assessment, row, minute, memory, recent)
    checks = list(changed_checks(assessment, memory, now))
    yield from checks
    failing = [f"{name} {_marked(each)}" for name, each in memory.checks.items() if _failed(each)]
    now = replace(now, failing=", ".join(sorted(failing)))
    why = occasion(
        *(stream.name, memory.told, now), acts=assessment.acts, report_every=stream.report_every
    )
    if why is None:
        memory.add(minute)
        return
    # With an event, for it costs a query. A run that has started a driver, or failed to, has stored
    # checks of its own.
    hourly = has_come(stream.name, AGAIN, memory.told.at, minute.at)
    if hourly or (memory.told.headline, memory.told.epoch) != (now.headline, now.epoch):
        # The events of this tick are not stored yet.
        just_said = {each.check_name for each in checks}
        forget_what_is_stored_otherwise(outcomes, stream, memory, just_said)
        yield from changed_checks(assessment, memory, now)
    wavers = why == lesser(memory.told, now)
    now = replace(now, lesser_at=minute.at if wavers else memory.told.lesser_at)
    shows = shown_by(now, row)
    moved_on = _moves_on(instance, stream, minute, memory, shows)
    metadata = _metadata(capabilities, assessment, row, minute, recent if moved_on else None)
    kind = dg.AssetMaterialization if moved_on else dg.AssetObservation
    minutes = stored([*memory.minutes, minute])
    yield kind(
        asset_key=asset_key(stream),
        description=why,
        metadata=metadata | {MINUTES: dg.MetadataValue.md(hidden(_FOR_HISTORY, minutes))},
    )
    memory.told, memory.minutes = now, []
    if moved_on:
        memory.shown, memory.advanced = shows, False


def _said_now(
    capabilities: Capabilities,
    assessment: Assessment,
    row: Row,
    minute: Minute,
    memory: StreamMemory,
    recent: Recent,
) -> Reported:
    """What an event of now would say, but for the checks."""
    stream = assessment.situation.stream
    max_lag = stream.autoscale.max_lag if stream.autoscale else None
    news = capabilities.news(assessment.situation.status)
    # Where it is not known how it is, nothing has ended.
    unknown = assessment.sighting.driver is None and assessment.sighting.error is not None
    unanswered = row.state == "running" and assessment.evaluation is None
    for key, stands, ended, untold in (
        ("steering", "; ".join(row.steering), "nothing steers it any more", unknown),
        ("busy", assessment.busy, "its change is over", unknown or unanswered),
        ("limits", "a limit was set" if row.limit_set else "", NO_LIMIT_SET, unknown or unanswered),
    ):
        before = memory.told.news.get(key)
        if before and untold:
            news[key] = before
        elif stands or before:
            news[key] = stands or ended
    if done := news_of(recent.operated):
        news[OPERATED] = done
    return said(
        *(memory.told, minute, headline(row), late_from(max_lag, stream.batch_interval)), news
    )


def _moves_on(
    instance: DagsterInstance, stream: Stream, minute: Minute, memory: StreamMemory, shows: str
) -> bool:
    """Whether the event is to be the one that Overview shows."""
    # What was never started was never materialized either. What was, and can't be told of now, must
    # not stand there as running.
    if minute.epoch is None and memory.epoch is None:
        return memory.advanced
    # Last, for to ask costs as much as to store an event.
    return (
        memory.advanced or not same(shows, memory.shown) or not _overview_is_ours(instance, stream)
    )


def shown_by(now: Reported, row: Row) -> str:
    """What must not stand in Overview once it is not so any more. A crash loop counts as one thing:
    its restarts are no data that moves on."""
    if now.headline == CRASH_LOOPING:
        return now.headline
    shown = f"{now.headline} {now.epoch} {now.failing}"
    if now.headline not in ("running", IN_MAINTENANCE):
        return shown
    shown += f" {now.registered} of {now.requested} {' '.join(map(mark, now.news.values()))}"
    shown = shown.rstrip()
    # Of a stream without data, why it has no R; but for numbers, which go on, as an age does.
    return shown if row.ratio is not None else f"{shown} {re.sub('[0-9]+', '', row.reason)}"


def _overview_is_ours(instance: DagsterInstance, stream: Stream) -> bool:
    """Whether Overview shows an event of this module: not that of a run which attached to a driver,
    and not nothing, as after a wipe."""
    latest = instance.get_latest_materialization_event(asset_key(stream))
    materialization = latest.asset_materialization if latest else None
    return materialization is not None and MINUTES in materialization.metadata


def _metadata(
    capabilities: Capabilities,
    assessment: Assessment,
    row: Row,
    minute: Minute,
    recent: Recent | None,
) -> dict[str, Any]:
    """The state, the pieces of Overview, and what Dagster plots.

    Args:
        recent: the last hours; None of an observation, which Overview does not show.
    """
    situation = assessment.situation
    pieces = {"state": overview.state(row, situation.bounds.minimum, situation.driver)}
    if recent is not None:
        executors = situation.status.executors if situation.status else ()
        pieces |= {
            "last hours": picture(recent.buckets),
            "executors": overview.executors(executors),
            **capabilities.sections(situation),
            "what happened": overview.happened(
                *(recent.stream, recent.decided, recent.operated, row.seen_at)
            ),
        }
    # Dagster orders plots by their labels, so these begin with a number.
    numbers = {
        "1. R": minute.ratio,
        "2. lag (s)": minute.lag,
        "3. executors": minute.registered,
        "4. input (records/s)": minute.input_rate,
        **capabilities.numbers(situation, minute),
    }
    shown = {name: dg.MetadataValue.md(text) for name, text in pieces.items() if text}
    return shown | {label: n for label, n in sorted(numbers.items()) if n is not None}


def forget_what_is_stored_otherwise(
    outcomes: Outcomes, stream: Stream, memory: StreamMemory, but: Collection[str]
) -> None:
    """Take what is stored of a check by others, or was wiped, for what has to be told anew; `but`
    not those of these names."""
    keys = [key for key in check_keys(stream, memory) if key.name not in but]
    for key, passed in outcomes.of(keys).items():
        if passed != (memory.checks[key.name] == "passed"):
            del memory.checks[key.name]


def check_keys(stream: Stream, memory: StreamMemory) -> list[dg.AssetCheckKey]:
    """The health checks of a stream that have been told of."""
    asset = asset_key(stream)
    return [dg.AssetCheckKey(asset, check) for check in memory.checks]


def _failed(outcome: str) -> bool:
    """Whether an outcome is that of a failed check: what it failed by stands behind."""
    return outcome.partition(" ")[0] == "failed"


def _marked(outcome: str) -> str:
    """An outcome with a mark in the place of a long text: the same, whether or not the cursor had
    room for that."""
    passed, space, by = outcome.partition(" ")
    return f"{passed}{space}{mark(by)}"


def _same_outcome(before: str | None, now: str) -> bool:
    """Whether a check has the outcome that was told; of a failed one, by the same."""
    passed, _, by = (before or "").partition(" ")
    passes, _, what = now.partition(" ")
    return before is not None and passed == passes and same(by, what)


def changed_checks(
    assessment: Assessment, memory: StreamMemory, now: Reported
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluations of the health checks whose outcome is not the one stored last, or that failed by
    something new. What wavers around its threshold goes on failing."""
    stream, log_tail = assessment.situation.stream, assessment.sighting.log_tail
    wavering = {Health.RATIO_BELOW_ONE: now.overloaded, Health.LAG_WITHIN_LIMIT: now.late}
    for health, finding in assessment.health.items():
        name = health.value
        before = memory.checks.get(name)
        failed = before is not None and before != "passed"
        if finding.passed is None or (finding.passed and failed and wavering.get(health)):
            continue
        outcome = "passed" if finding.passed else f"failed {finding.mark}".rstrip()
        if _same_outcome(before, outcome):
            continue
        memory.checks[name] = outcome
        yield dg.AssetCheckEvaluation(
            asset_key=asset_key(stream),
            check_name=name,
            passed=finding.passed,
            severity=severity(finding),
            description=dated(finding.text, "since", now.at),
            metadata={"log": log_tail} if log_tail and not finding.passed else {},
        )
