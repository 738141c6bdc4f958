"""The sensor: one a cluster, for all its streams.

It looks, assesses, and asks for runs; it changes nothing itself. A slow sensor holds up all others
of its code location and is cut off after 60 s, so it looks at its streams in parallel and never
for longer than its deadline.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import dagster as dg

from dagster_sparkscale.autoscale.scale_down import NOTHING_ASKED
from dagster_sparkscale.capability import Capabilities
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.declare.learner import Learner
from dagster_sparkscale.declare.stream import LONGEST_REPORT, Stream
from dagster_sparkscale.in_flight import InFlight, in_flight
from dagster_sparkscale.lifecycle.recovery import Restart
from dagster_sparkscale.names import STREAMS, scoped
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.minutes import minute as minute_of
from dagster_sparkscale.operations import Operations, Streams, asset_key
from dagster_sparkscale.private_dagster import carrying, code_location
from dagster_sparkscale.watch.assess import Assessment, assess_or_say_why
from dagster_sparkscale.watch.budget import within
from dagster_sparkscale.watch.collect import Collector
from dagster_sparkscale.watch.coverage import Evaluated
from dagster_sparkscale.watch.fleet.events import fleet_event
from dagster_sparkscale.watch.fleet.orphan import Orphan
from dagster_sparkscale.watch.fleet.rows import Row, orphan_row, row
from dagster_sparkscale.watch.health import NOT_STOPPED
from dagster_sparkscale.watch.learners import Learners
from dagster_sparkscale.watch.memory import Memory, StreamMemory
from dagster_sparkscale.watch.orphans import OrphanSearch, orphan_events, remembered
from dagster_sparkscale.watch.page.events import Event, events_of
from dagster_sparkscale.watch.page.operated import RecentOperations
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
    capabilities: Capabilities,
    *,
    default_status: dg.DefaultSensorStatus,
    deadline: float = DEADLINE,
    budget: Budget | None = None,
) -> dg.SensorDefinition:
    """The sensor that evaluates `streams` and requests runs of what is decided."""
    intervals = [stream.autoscale.interval for stream in streams if stream.autoscale]
    watch = Watch(streams, operations, capabilities, budget)

    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        with watch.alone(deadline) as left:
            return Tick(watch, context, left).evaluate()

    return dg.SensorDefinition(
        name=scoped("autoscaler", streams.cluster_key),
        evaluation_fn=evaluate,
        jobs=operations.decided,
        # A longer interval of a policy is kept by when it last decided; the rest is seen to anyway.
        minimum_interval_seconds=max(1, int(min([LONGEST_PAUSE, *intervals]))),
        default_status=default_status,
        required_resource_keys={streams.cluster_key},
        metadata=carrying(STREAMS, streams),
        description="Evaluates every stream, observes it, and requests its rescales and restarts.",
    )


@dataclass
class Watch:
    """What a sensor has for as long as its process lives."""

    streams: Streams
    operations: Operations
    capabilities: Capabilities
    budget: Budget | None = None
    collector: Collector = field(default_factory=Collector)
    orphans: OrphanSearch = field(default_factory=OrphanSearch)
    recents: Recents = field(default_factory=Recents)
    operated: RecentOperations = field(init=False)
    learners: Learners = field(default_factory=Learners)
    _evaluating: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.operated = RecentOperations(self.streams.cluster_key)

    @contextmanager
    def alone(self, deadline: float) -> Iterator[float]:
        """Keep any other tick from beginning; gives the seconds that are left of `deadline`."""
        began = time.monotonic()
        # Whoever tests the sensor in the UI does so in this process, too: the looks of the one
        # would count as hanging for the other.
        if not self._evaluating.acquire(timeout=deadline / 2):
            raise RuntimeError(
                f"another evaluation of this sensor has gone on for {deadline / 2:g} s, as a test "
                "of it from the UI: this one has looked at nothing"
            )
        try:
            yield deadline - (time.monotonic() - began)
        finally:
            self._evaluating.release()


class Tick:
    """One evaluation of all streams: looks, assesses, tells Dagster, and asks for runs."""

    def __init__(self, watch: Watch, context: dg.SensorEvaluationContext, deadline: float) -> None:
        """
        Args:
            deadline: seconds for the looks.
        """
        self._watch, self._context, self._deadline = watch, context, deadline
        self._streams = watch.streams
        self._now = time.time()
        self._memory = Memory.load(context.cursor)
        self._cluster = self._streams.cluster(context)
        self._owner = self._streams.owner(code_location(context))
        self._events: list[Event] = []
        self._size = 0
        """Characters of the events."""
        self._rows: list[Row] = []
        self._faults: list[str] = []
        """Why Dagster could not be told of a stream."""
        self._learners: dict[str, Learner | None] = {}
        """What the policies of those streams have learned that have been assessed, by name."""

    def evaluate(self) -> dg.SensorResult:
        """What Dagster is to store, and which runs it is to start."""
        self._watch.learners.tick(self._streams.by_name, self._now)
        sightings = self._look()
        orphans = self._search_orphans()
        assessments = self._assess(sightings)
        self._watch.recents.tick(self._streams.by_name)
        self._read_operations()
        requests: list[dg.RunRequest] = []
        for stream in self._streams:
            assessment = assessments[stream.name]
            requests += self._watch.operations.requests(
                *(stream, assessment.decision, assessment.epoch, self._now)
            )
            self._tell(stream, assessment)
        self._tell_of_fleet(orphans)
        return self._result(requests, orphans, assessments)

    def _read_operations(self) -> None:
        try:
            self._watch.operated.read_on(self._context.instance, self._now)
        except Exception as error:  # what was done of late must not hide how streams are
            text = f"what was done can't be read: {type(error).__name__}: {error}"
            self._context.log.exception(text)
            self._faults.append(text)

    def _look(self) -> dict[str, Sighting]:
        """A sighting of each stream, by name."""
        elapsed = {
            name: self._now - known.decided_at
            for name, known in self._memory.streams.items()
            if known.evaluated.at
        }
        sightings = self._watch.collector.collect(
            self._cluster, self._streams, deadline=self._deadline, elapsed=elapsed
        )
        for name, found in sightings.items():
            known = self._memory.of(name)
            sighting = missed(found, known.epoch)
            sightings[name] = of_another(sighting, self._streams.by_name[name], self._owner)
            if sightings[name] is sighting and (driver := sighting.driver) is not None:
                known.epoch = None if driver.state is DriverState.STOPPED else driver.epoch
        return sightings

    def _search_orphans(self) -> Sequence[Orphan]:
        declared, left = self._streams.by_name, self._deadline - (time.time() - self._now)
        return self._watch.orphans.search(
            *(self._cluster, declared, self._owner, max(0.1, left)),
            remembered(self._memory, declared),
        )

    def _assess(self, sightings: Mapping[str, Sighting]) -> dict[str, Assessment]:
        """An assessment of each stream, by name."""
        assessments = {
            stream.name: self._assess_and_learn(stream, sightings[stream.name])
            for stream in self._streams
        }
        busy: Mapping[str, InFlight] = {}
        # Most ticks hold everything, and need not ask what is in flight.
        if any(map(_waits_for_runs, assessments.values())):
            of = (self._context.instance, self._streams.cluster_key, self._cluster, self._now)
            busy = in_flight(*of)
        for name, stream in self._streams.by_name.items():
            assessment, known = assessments[name], self._memory.of(name)
            status = assessment.situation.status
            evaluated = self._is_due(stream) and assessment.evaluation is not None
            if name in busy and _waits_for(busy[name], assessment):
                # Not decided: it is due again at the next tick.
                assessments[name] = self._assessed(stream, assessment.sighting, str(busy[name]))
            elif evaluated:
                known.decided_at = self._now
            if evaluated and status is not None:
                # Also beside an operation: what was before it says little of what comes after it.
                known.evaluated = Evaluated(status.now, status.last_seq)
                known.asked = assessment.asked or NOTHING_ASKED
        budget = self._watch.budget
        if budget is None:
            return assessments
        return within(budget, assessments, self._memory, self._now)

    def _assess_and_learn(self, stream: Stream, sighting: Sighting) -> Assessment:
        known = self._memory.of(stream.name)
        assessment = self._assessed(stream, sighting)
        learned = self._watch.capabilities.learn(assessment.situation, assessment.decision)
        if learned == known.learned:
            return assessment
        known.learned = learned
        return self._assessed(stream, assessment.sighting)

    def _assessed(
        self, stream: Stream, sighting: Sighting, operation: str | None = None
    ) -> Assessment:
        known = self._memory.of(stream.name)
        return assess_or_say_why(
            *(stream, sighting),
            capabilities=self._watch.capabilities,
            now=self._now,
            operation=operation,
            due=self._is_due(stream),
            before=known.evaluated,
            learned=known.learned,
            asked=known.asked,
            learner=self._learner(stream, known),
        )

    def _learner(self, stream: Stream, known: StreamMemory) -> Learner | None:
        """What its policy has learned; read back once a tick, however often it is assessed."""
        name = stream.name
        if name not in self._learners:
            self._learners[name] = self._learned(stream, known)
        return self._learners[name]

    def _learned(self, stream: Stream, known: StreamMemory) -> Learner | None:
        try:
            return self._watch.learners.of(self._context.instance, stream, known)
        except Exception as error:  # what can't be read back of one must not hide the others
            text = f"{stream.name}: its minutes can't be read: {type(error).__name__}: {error}"
            self._context.log.exception(text)
            self._faults.append(text)
            return None

    def _is_due(self, stream: Stream) -> bool:
        """Whether the interval of the stream's policy has passed since it last decided."""
        interval = stream.autoscale.interval if stream.autoscale else 0.0
        # Below 0: the clock was set back since.
        return not 0 <= self._now - self._memory.of(stream.name).decided_at < interval * _LATE

    def _tell(self, stream: Stream, assessment: Assessment) -> None:
        """Have Dagster told of a stream; at the next tick, where this one has told enough."""
        known, decision = self._memory.of(stream.name), assessment.decision
        known.checks.pop("orphan", None)
        minute = minute_of(
            *(self._now, assessment.state, assessment.epoch, assessment.evaluation),
            str(decision) if assessment.acts else None,
            decision.reason if assessment.acts else None,
        )
        instance = self._context.instance
        try:
            known.usage = known.usage.after(minute, known.last_at)
            hours = round(known.usage.executor_hours, 2) if known.usage.measured_hours else None
            self._rows.append(row(assessment, executor_hours=hours))
            recent = self._watch.recents.of(instance, stream.name, asset_key(stream), known)
            recent.add(minute)
            recent.operated = self._watch.operated.of(stream.name)
            self._watch.learners.add(stream.name, minute)
            if self._size > MOST_TOLD:
                _keep(known, minute)
                return
            capabilities, of = self._watch.capabilities, self._rows[-1]
            new = [*events_of(instance, capabilities, assessment, of, minute, known, recent)]
            self._size += sum(len(repr(event)) for event in new)
            self._events += new
        except Exception as error:  # what can't be told of one must not silence the others
            text = f"{stream.name}: can't be told of: {type(error).__name__}: {error}"
            self._context.log.exception(text)
            self._faults.append(text)
            # `events_of` comes to its end, or remembers nothing.
            _keep(known, minute)

    def _tell_of_fleet(self, orphans: Sequence[Orphan]) -> None:
        self._events += orphan_events(orphans, self._memory)
        self._rows += [orphan_row(orphan, now=self._now) for orphan in orphans]
        self._events += fleet_event(
            *(self._streams, self._rows, self._memory.fleet, self._context.instance),
            *(self._cluster, self._owner, self._now),
        )

    def _result(
        self,
        requests: list[dg.RunRequest],
        orphans: Sequence[Orphan],
        assessments: Mapping[str, Assessment],
    ) -> dg.SensorResult:
        lines = [*self._faults, *map(str, orphans), *map(str, assessments.values())]
        if requests:
            # Dagster keeps a file of each tick that logs: so none of a tick that does nothing.
            self._context.log.info("\n".join(lines))
        keep = {*self._streams.by_name, *(orphan.driver.stream for orphan in orphans)}
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else _shortened(lines),
            asset_events=self._events,
            cursor=self._memory.dump(keep=keep),
        )


def _keep(known: StreamMemory, minute: Minute) -> None:
    """Have the next event of a stream tell of this minute, too. No more than an event may have."""
    pending = [each for each in known.minutes if each.at > minute.at - LONGEST_REPORT]
    known.minutes = [*pending, minute]
    known.advanced |= bool(minute.input_rate)


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
