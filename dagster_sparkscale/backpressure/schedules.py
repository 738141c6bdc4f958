"""Schedules: when limits are looked over, and when it is seen whether a change did any good."""

import time

import dagster as dg

from dagster_sparkscale.backpressure.preflight import look, rules
from dagster_sparkscale.backpressure.retune import is_due
from dagster_sparkscale.backpressure.retune_job import NAME, RetuneDecision, minutes_of
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.deadlines import in_time, why
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_flight import in_flight
from dagster_sparkscale.in_force.steering import in_force
from dagster_sparkscale.lifecycle.schedules import Due, schedule_of, settings_of
from dagster_sparkscale.operations import Operations, Streams

DEADLINE = 40.0
"""Seconds that a tick may spend on looking: Dagster ends it after 60."""
VERIFY = "*/10 * * * *"
"""When it is looked for changes that are to be verified."""


def retune_schedules(
    streams: Streams, operations: Operations, *, deadline: float = DEADLINE
) -> list[dg.ScheduleDefinition]:
    """One for each stream that is retuned by itself, and one that has changes verified."""
    retuned = [stream for stream in streams if stream.retune is not None]
    made = [
        _retune(streams, operations, stream, deadline)
        for stream in retuned
        if rules(stream).schedule is not None
    ]
    return [*made, _verify(streams, operations, retuned, deadline)] if retuned else []


def _retune(
    streams: Streams, operations: Operations, stream: Stream, deadline: float
) -> dg.ScheduleDefinition:
    declared = rules(stream)
    cron = declared.cron(stream.name)
    assert cron is not None

    def decide(cluster: ClusterManager, instance: dg.DagsterInstance, now: float) -> Due | str:
        asking = Requester(NAME, decided=True)
        try:
            found = look(cluster, stream, asking, minutes_of(instance, stream, now), now=now)
        except Refused as error:
            return f"refused: {error}"
        if found.change is None:
            return f"nothing to do: {found.why_not}"
        reason = f"as scheduled: {'; '.join(map(str, found.change.recommended))}"
        return Due(RetuneDecision(reason, dry_run=not declared.apply), found.driver.epoch)

    settings = {
        **settings_of(f"retune_{stream.name}", NAME, streams, operations),
        "cron_schedule": cron,
        "execution_timezone": declared.timezone,
        "description": f"Gives {stream.name} the limits that its history recommends.",
    }
    return schedule_of(streams, operations, stream, decide, deadline, "night", settings)


def _verify(
    streams: Streams, operations: Operations, retuned: list[Stream], deadline: float
) -> dg.ScheduleDefinition:
    @dg.schedule(
        **settings_of("verify_retunes", NAME, streams, operations),
        cron_schedule=VERIFY,
        description="Sees whether changes of limits did any good; what did harm is put back.",
    )
    def verify(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        now = time.time()
        cluster = streams.cluster(context)
        busy = in_flight(context.instance, streams.cluster_key, cluster, now)

        def due() -> dict[str, tuple[str, str | None]]:
            """Name who has made a change that is to be verified, and what bars that, by stream."""
            store = cluster.snapshot().store()
            found = {}
            for stream in retuned:
                record = store.read(stream.name)
                tuning = record.tuning if record is not None else None
                if tuning is not None and is_due(tuning, now):
                    run, steering = busy.get(stream.name), in_force(record, stream, now)
                    bars = steering.in_words(entry) if (entry := steering.barring) else None
                    found[stream.name] = tuning.by, f"{run} is in progress" if run else bars
            return found

        found = in_time(due, deadline)
        if isinstance(found, Exception):
            return dg.SkipReason(f"it can't be told what is due: {why(found)}")
        wanted = {name: by for name, (by, bars) in found.items() if bars is None}
        if not wanted:
            waits = [f"{name}: {bars}" for name, (_, bars) in found.items()]
            return dg.SkipReason("; ".join(waits) or "nothing is due")
        requests = []
        for name, by in wanted.items():
            decision = RetuneDecision(f"whether what {by} has changed did any good", verify=True)
            requests += operations.requests(streams.by_name[name], decision, None, now)
        return requests

    return verify
