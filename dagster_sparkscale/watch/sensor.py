"""The sensor: one a cluster, for all its streams.

It looks, assesses, and asks for runs; it changes nothing itself. A slow sensor holds up all others
of its code location and is cut off after 60 s, so it looks at its streams in parallel and never
for longer than its deadline.
"""

import time
from collections.abc import Iterator, Mapping

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.names import CLUSTER_TAG, OPERATION_TAG, PREFIX, STREAM_TAG, scoped
from dagster_sparkscale.operations import Operations, Streams, asset_key
from dagster_sparkscale.watch.assess import Assessment, assess
from dagster_sparkscale.watch.checks import severity
from dagster_sparkscale.watch.collect import collect
from dagster_sparkscale.watch.memory import Memory, StreamMemory
from dagster_sparkscale.watch.report import observation
from dagster_sparkscale.watch.sighting import Sighting

DEADLINE = 30.0
"""Seconds a tick may spend on looking. Dagster ends a tick after 60; storing takes the rest."""

MATERIALIZE_EVERY = 600.0
"""Seconds between two materializations that say data moved on. Freshness policies and `eager()`
see only materializations, and one every minute would be noise."""

LONGEST_PAUSE = 60.0
"""Seconds between two ticks at most: whatever the policies say, streams are observed and failed
drivers restarted."""

OPERATION_LIMIT = 900.0
"""Seconds after which a run no longer counts as in flight: one whose process died may stay
`STARTED` for ever, and must not keep its stream from being scaled."""

_SKIP_REASON_LIMIT = 4000
_LATE = 0.9  # ticks come every 60 to 65 s and may be early by a moment: do not skip a whole one

Event = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation


def autoscale_sensor(
    streams: Streams,
    operations: Operations,
    *,
    default_status: dg.DefaultSensorStatus,
    deadline: float = DEADLINE,
) -> dg.SensorDefinition:
    """The sensor that evaluates `streams` and requests runs of what is decided."""
    intervals = [stream.autoscale.interval for stream in streams if stream.autoscale]

    def evaluate_streams(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now = time.time()
        memory = Memory.load(context.cursor)
        sightings = collect(streams.cluster(context), streams, deadline=deadline)
        assessments = _assess_all(context.instance, streams, sightings, memory, now)
        events: list[Event] = []
        requests: list[dg.RunRequest] = []
        for stream in streams:
            assessment, remembered = assessments[stream.name], memory.of(stream.name)
            log_tail = sightings[stream.name].log_tail
            events.append(observation(stream, asset_key(stream), assessment))
            events.extend(changed_checks(stream, assessment, remembered, log_tail))
            events.extend(progress(stream, assessment, remembered, now))
            decision, epoch = assessment.decision, assessment.epoch
            if request := operations.request(stream, decision, epoch, now):
                requests.append(request)
        lines = [str(assessment) for assessment in assessments.values()]
        # One record for all: a thousand calls of Dagster's logger cost more than a thousand looks.
        context.log.info("\n".join(lines))
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else _shortened(lines),
            asset_events=events,
            cursor=memory.dump(keep=streams.by_name),
        )

    return dg.SensorDefinition(
        name=scoped("autoscaler", streams.cluster_key),
        evaluation_fn=evaluate_streams,
        jobs=operations.decided,
        # A longer interval of a policy is kept by when it last decided; the rest is seen to anyway.
        minimum_interval_seconds=max(1, int(min([LONGEST_PAUSE, *intervals]))),
        default_status=default_status,
        required_resource_keys={streams.cluster_key},
        description="Evaluates every stream, observes it, and requests its rescales and restarts.",
    )


def _assess_all(
    instance: DagsterInstance,
    streams: Streams,
    sightings: Mapping[str, Sighting],
    memory: Memory,
    now: float,
) -> dict[str, Assessment]:
    assessments = {}
    due = {}
    for stream in streams:
        decided_at = memory.of(stream.name).decided_at
        interval = stream.autoscale.interval if stream.autoscale else 0.0
        # Below 0: the clock was set back since.
        due[stream.name] = not 0 <= now - decided_at < interval * _LATE
        assessments[stream.name] = assess(
            stream, sightings[stream.name], now=now, due=due[stream.name]
        )
    busy: Mapping[str, str] = {}
    # Most ticks hold everything; only one that does not needs to ask what is in flight.
    if any(assessment.acts for assessment in assessments.values()):
        busy = operations_in_flight(instance, streams.cluster_key, now)
    for name, stream in streams.by_name.items():
        if name in busy and assessments[name].acts:
            # Not decided: it is due again at the next tick.
            assessments[name] = assess(
                stream, sightings[name], now=now, operation=busy[name], due=due[name]
            )
        elif due[name]:
            memory.of(name).decided_at = now
    return assessments


def operations_in_flight(
    instance: DagsterInstance, cluster_key: str, now: float
) -> Mapping[str, str]:
    """By stream, the operation that a run is about to carry out or is carrying out."""
    records = instance.get_run_records(
        dg.RunsFilter(
            statuses=[
                dg.DagsterRunStatus.QUEUED,
                dg.DagsterRunStatus.NOT_STARTED,
                dg.DagsterRunStatus.STARTING,
                dg.DagsterRunStatus.STARTED,
                dg.DagsterRunStatus.CANCELING,
            ],
            tags={CLUSTER_TAG: cluster_key},
        )
    )
    return {
        record.dagster_run.tags[STREAM_TAG]: (
            f"{record.dagster_run.tags.get(OPERATION_TAG, 'operation')} run "
            f"{record.dagster_run.run_id[:8]}"
        )
        for record in records
        if STREAM_TAG in record.dagster_run.tags
        and now - record.create_timestamp.timestamp() < OPERATION_LIMIT
    }


def changed_checks(
    stream: Stream, assessment: Assessment, memory: StreamMemory, log_tail: str
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
            description=finding.text,
            metadata={"log": log_tail} if log_tail and not finding.passed else {},
        )


def progress(
    stream: Stream, assessment: Assessment, memory: StreamMemory, now: float
) -> Iterator[dg.AssetMaterialization]:
    """At most every `MATERIALIZE_EVERY` seconds, and only if records were processed since."""
    seen = assessment.seen
    memory.advanced |= bool(seen and seen.input_rate)
    if not memory.advanced or 0 <= now - memory.materialized_at < MATERIALIZE_EVERY:
        return
    memory.materialized_at, memory.advanced = now, False
    yield dg.AssetMaterialization(
        asset_key=asset_key(stream),
        description="The stream has processed records.",
        metadata={PREFIX + "epoch": assessment.epoch},
    )


def _shortened(lines: list[str]) -> str:
    text = "\n".join(lines)
    if len(text) <= _SKIP_REASON_LIMIT:
        return text
    whole = text[:_SKIP_REASON_LIMIT].count("\n")
    if whole == 0:
        return f"{text[:_SKIP_REASON_LIMIT]}... cut: see the tick's log"
    return "\n".join([*lines[:whole], f"... and {len(lines) - whole} more: see the tick's log"])
