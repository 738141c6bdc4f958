"""The sensor: one a cluster, for all its streams.

It looks, assesses, and asks for runs; it changes nothing itself. A slow sensor holds up all others
of its code location and is cut off after 60 s, so it looks at its streams in parallel and never
for longer than its deadline.
"""

import threading
import time
from collections.abc import Mapping

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.declare.stream import LONGEST_REPORT, Stream
from dagster_sparkscale.in_flight import InFlight, in_flight
from dagster_sparkscale.lifecycle.recovery import Restart
from dagster_sparkscale.names import STREAMS, scoped
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.minutes import minute as minute_of
from dagster_sparkscale.operations import Operations, Streams, asset_key
from dagster_sparkscale.private_dagster import carrying, code_location
from dagster_sparkscale.receivers.count import still_known
from dagster_sparkscale.watch.assess import Assessment, judge
from dagster_sparkscale.watch.collect import Collector
from dagster_sparkscale.watch.coverage import Evaluated
from dagster_sparkscale.watch.fleet.events import told_of_fleet
from dagster_sparkscale.watch.fleet.orphans import OrphanSearch, remembered, told_of
from dagster_sparkscale.watch.fleet.rows import Row, orphan_row, row
from dagster_sparkscale.watch.health import NOT_STOPPED, Health
from dagster_sparkscale.watch.memory import Memory, StreamMemory
from dagster_sparkscale.watch.page.events import Event, told
from dagster_sparkscale.watch.page.recent import Recents
from dagster_sparkscale.watch.sighting import Sighting, missed, of_another

DEADLINE = 30.0
"""Seconds a tick may spend on looking. Dagster ends a tick after 60; storing takes the rest."""

LONGEST_PAUSE = 60.0
"""Seconds between two ticks at most: whatever the policies say, streams are observed and failed
drivers restarted."""

MOST_TOLD = 20e6
"""Characters of what a tick tells Dagster, at most: Dagster refuses a tick above 100 MB (older
releases 50), with all that it asks for, and the next one would be as large. The next one tells the
rest."""

_SKIP_REASON_LIMIT = 4000
_LATE = 0.9  # ticks come every 60 to 65 s and may be early by a moment: do not skip a whole one


def autoscale_sensor(
    streams: Streams,
    operations: Operations,
    *,
    default_status: dg.DefaultSensorStatus,
    deadline: float = DEADLINE,
) -> dg.SensorDefinition:
    """The sensor that evaluates `streams` and requests runs of what is decided."""
    intervals = [stream.autoscale.interval for stream in streams if stream.autoscale]
    collector, orphan_search, recents = Collector(), OrphanSearch(), Recents()

    evaluating = threading.Lock()

    def evaluate_streams(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        began = time.monotonic()
        # Whoever tests the sensor in the UI does so in this process, too: the looks of the one
        # would count as hanging for the other.
        if not evaluating.acquire(timeout=deadline / 2):
            raise RuntimeError(
                f"another evaluation of this sensor has gone on for {deadline / 2:g} s, as a test "
                "of it from the UI: this one has looked at nothing"
            )
        try:
            return evaluate(context, deadline - (time.monotonic() - began))
        finally:
            evaluating.release()

    def evaluate(context: dg.SensorEvaluationContext, deadline: float) -> dg.SensorResult:
        now = time.time()
        memory = Memory.load(context.cursor)
        elapsed = {
            name: now - known.decided_at
            for name, known in memory.streams.items()
            if known.evaluated.at
        }
        sightings = collector.collect(
            streams.cluster(context), streams, deadline=deadline, elapsed=elapsed
        )
        owner = streams.owner(code_location(context))
        for name, found in sightings.items():
            known = memory.of(name)
            sighting = missed(found, known.epoch)
            sightings[name] = of_another(sighting, streams.by_name[name], owner)
            if sightings[name] is sighting and (driver := sighting.driver) is not None:
                known.epoch = None if driver.state is DriverState.STOPPED else driver.epoch
        left = max(0.1, deadline - (time.time() - now))
        orphans = orphan_search.search(
            *(streams.cluster(context), streams.by_name, owner, left),
            remembered(memory, streams.by_name),
        )
        cluster = streams.cluster(context)
        assessments = _assess_all(context.instance, streams, cluster, sightings, memory, now)
        recents.tick(streams.by_name)
        events: list[Event] = []
        rows: list[Row] = []
        lines: list[str] = []
        requests: list[dg.RunRequest] = []
        size = 0
        for stream in streams:
            assessment, sighting = assessments[stream.name], sightings[stream.name]
            known, decision = memory.of(stream.name), assessment.decision
            known.checks.pop("orphan", None)
            requests += operations.requests(stream, decision, assessment.epoch, now)
            minute = minute_of(
                now,
                assessment.state,
                assessment.epoch,
                assessment.seen,
                str(decision) if assessment.acts else None,
                decision.reason if assessment.acts else None,
            )
            try:
                rows.append(row(stream, assessment, sighting, now=now))
                recent = recents.of(context.instance, stream.name, asset_key(stream), known)
                recent.add(minute)
                if size > MOST_TOLD:
                    _keep(known, minute)
                    continue
                new = [
                    *told(
                        *(context.instance, stream, assessment, sighting, rows[-1]),
                        *(minute, known, recent),
                    )
                ]
                size += sum(len(repr(event)) for event in new)
                events += new
            except Exception as error:  # what can't be told of one must not silence the others
                text = f"{stream.name}: can't be told of: {type(error).__name__}: {error}"
                context.log.exception(text)
                lines.append(text)
                # As `told` comes to its end, or remembers nothing.
                _keep(known, minute)
        events += told_of(orphans, memory)
        rows += [orphan_row(orphan, now=now) for orphan in orphans]
        events += told_of_fleet(
            *(streams, rows, memory.fleet, context.instance, cluster, owner, now)
        )
        lines += [*map(str, orphans), *map(str, assessments.values())]
        if requests:
            # Dagster keeps a file of each tick that logs: so none of a tick that does nothing.
            context.log.info("\n".join(lines))
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else _shortened(lines),
            asset_events=events,
            cursor=memory.dump(keep={*streams.by_name, *(o.driver.stream for o in orphans)}),
        )

    return dg.SensorDefinition(
        name=scoped("autoscaler", streams.cluster_key),
        evaluation_fn=evaluate_streams,
        jobs=operations.decided,
        # A longer interval of a policy is kept by when it last decided; the rest is seen to anyway.
        minimum_interval_seconds=max(1, int(min([LONGEST_PAUSE, *intervals]))),
        default_status=default_status,
        required_resource_keys={streams.cluster_key},
        metadata=carrying(STREAMS, streams),
        description="Evaluates every stream, observes it, and requests its rescales and restarts.",
    )


def _keep(known: StreamMemory, minute: Minute) -> None:
    """Have the next event of a stream tell of this minute, too. No more than an event may have."""
    pending = [each for each in known.minutes if each.at > minute.at - LONGEST_REPORT]
    known.minutes = [*pending, minute]
    known.advanced |= bool(minute.input_rate)


def _assess_all(
    instance: DagsterInstance,
    streams: Streams,
    cluster: ClusterManager,
    sightings: dict[str, Sighting],
    memory: Memory,
    now: float,
) -> dict[str, Assessment]:
    """An assessment of each stream. One that can't be judged has a sighting that says so, from
    then on."""
    due: dict[str, bool] = {}

    def assessed(stream: Stream, operation: str | None = None) -> Assessment:
        name = stream.name
        assessment, sightings[name] = judge(
            *(stream, sightings[name]),
            now=now,
            operation=operation,
            due=due[name],
            before=memory.of(name).evaluated,
            capacity=memory.of(name).capacity,
        )
        return assessment

    assessments = {}
    for stream in streams:
        name, decided_at = stream.name, memory.of(stream.name).decided_at
        interval = stream.autoscale.interval if stream.autoscale else 0.0
        # Below 0: the clock was set back since.
        due[name] = not 0 <= now - decided_at < interval * _LATE
        assessments[name] = assessed(stream)
        before = memory.of(name).capacity
        capacity = _capacity(before, assessments[name], sightings[name])
        if capacity != before:
            memory.of(name).capacity = capacity
            assessments[name] = assessed(stream)
    busy: Mapping[str, InFlight] = {}
    # Most ticks hold everything, and need not ask what is in flight.
    if any(map(_waits_for_runs, assessments.values())):
        busy = in_flight(instance, streams.cluster_key, cluster, now)
    for name, stream in streams.by_name.items():
        status, known = sightings[name].status, memory.of(name)
        evaluated = due[name] and assessments[name].seen is not None
        if name in busy and _waits_for(busy[name], assessments[name]):
            # Not decided: it is due again at the next tick.
            assessments[name] = assessed(stream, str(busy[name]))
        elif evaluated:
            known.decided_at = now
        if evaluated and status is not None:
            # Also beside an operation: what was before it says little of what comes after it.
            known.evaluated = Evaluated(status.now, status.last_seq)
    return assessments


def _capacity(known: float | None, assessment: Assessment, sighting: Sighting) -> float | None:
    """What one receiver was seen to take at most, in records per second; None: not known.

    Args:
        known: by what was seen before.
    """
    status, seen = sighting.status, assessment.seen
    if status is None or seen is None or not status.receivers:
        return known
    return still_known(known, seen, len(status.receivers))


def _waits_for(run: InFlight, assessment: Assessment) -> bool:
    """Whether nothing is done to a stream beside that run."""
    if isinstance(assessment.decision, Restart):
        return run.bars_recovery
    return _waits_for_runs(assessment)


def _waits_for_runs(assessment: Assessment) -> bool:
    """Whether a run in flight changes what is decided or said: of what is to be done, and of a stop
    or a start, which it may be in the middle of."""
    mark = assessment.health[Health.RUNNING].mark
    return assessment.acts or mark == NOT_STOPPED or assessment.state in _NOT_RUNNING


_NOT_RUNNING = ("not started", DriverState.STOPPED.value)


def _shortened(lines: list[str]) -> str:
    text = "\n".join(lines)
    if len(text) <= _SKIP_REASON_LIMIT:
        return text
    whole = text[:_SKIP_REASON_LIMIT].count("\n")
    if whole == 0:
        return f"{text[:_SKIP_REASON_LIMIT]}... cut: see the page of the stream"
    return "\n".join(
        [*lines[:whole], f"... and {len(lines) - whole} more: see the pages of the streams"]
    )
