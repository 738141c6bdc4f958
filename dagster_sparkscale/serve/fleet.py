"""Looks at all streams for who asks for metrics, at most once in a while however often that is."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from dagster import DagsterInstance

from dagster_sparkscale.capability import Capabilities
from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.deadlines import Calls, NoAnswer
from dagster_sparkscale.declare.learner import Learner
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.metrics.exposition import Sample, sample
from dagster_sparkscale.in_flight import InFlight, in_flight
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.operations import Streams
from dagster_sparkscale.serve.event_log import EventLog
from dagster_sparkscale.serve.learned import Learned
from dagster_sparkscale.serve.metrics import (
    LOG_READ,
    LOOK_SECONDS,
    LOOKED,
    TICK,
    learns,
    of_budget,
    of_stream,
    of_tallies,
)
from dagster_sparkscale.serve.tally import Tally
from dagster_sparkscale.watch.assess import Assessment, assess_or_say_why
from dagster_sparkscale.watch.collect import Collector
from dagster_sparkscale.watch.fleet.rows import Row, row, worst_first
from dagster_sparkscale.watch.sighting import Sighting, of_another

LOOKING = 5.0
"""Seconds for the agents of all clusters to answer: Prometheus waits 10 s for a scrape."""
READING = 2.0
"""Seconds for the event log, and half of that for what policies have learned."""
ANSWERING = 4.0
"""Seconds after which a look goes on without Dagster, whose database may hang."""
JUDGING = 1.0
"""Seconds for one stream's policy to say what it would do."""
WAITING = 9.0
"""Seconds that a request waits for a look that somebody else has asked for."""


class Busy(Exception):
    """A look goes on, and has for long; the text says so."""


@dataclass
class Watched:
    """The streams of one cluster."""

    owner: str
    """Code location and cluster, as they are remembered with each start."""
    streams: Streams
    cluster: ClusterManager
    last_tick: Callable[[DagsterInstance], float | None]
    """When the autoscaler last ticked, seconds since the epoch; None: it has not."""
    log: EventLog
    pending: Callable[[DagsterInstance], Mapping[str, Sequence[Minute]]] = lambda _: {}
    """The minutes of each stream that its autoscaler has seen and that are no event yet."""
    collector: Collector = field(default_factory=Collector)
    learned: Learned = field(default_factory=Learned)


@dataclass(frozen=True)
class _OfDagster:
    """What only Dagster knows of a cluster."""

    busy: Mapping[str, InFlight] = field(default_factory=dict)
    """The operations in flight, by stream."""
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    """The sums of the event log, by stream."""
    tick: float | None = None
    """When the autoscaler last ticked; None: it has not."""
    learned: Mapping[str, Learner] = field(default_factory=dict)
    """What policies have learned, by stream, as far as it was read."""


@dataclass(frozen=True)
class _Seen:
    """What the cluster manager and the agents have told of one cluster."""

    watched: Watched
    sightings: Mapping[str, Sighting]
    """The sighting of each stream, by its name."""
    at: float
    """When they were asked, seconds since the epoch."""
    took: float
    """Seconds."""


@dataclass(frozen=True)
class ClusterLook:
    """What a look at one cluster has brought."""

    watched: Watched
    at: float
    """When, seconds since the epoch."""
    rows: Sequence[Row]
    """The streams, the worst first."""
    assessments: Mapping[str, Assessment]
    """The assessment of each stream, by its name."""
    samples: Sequence[Sample]
    fault: str = ""
    """Why Dagster's event log could not be read; empty: it was."""
    ticked_at: float | None = None
    """When its autoscaler last ticked; None: it has not, or that is not known."""


@dataclass(frozen=True)
class Look:
    """What a look at all clusters has brought."""

    number: int
    """Tells it from the looks before."""
    clusters: Sequence[ClusterLook]


class Fleet:
    """All clusters that are served.

    Args:
        instance: opens Dagster's instance; None: there is none to be had, and nothing is told of
            what only the event log knows.
        every: seconds between two looks at least.
        report: is told why the event log can't be read.
    """

    def __init__(
        self,
        clusters: Sequence[Watched],
        capabilities: Capabilities,
        instance: Callable[[], AbstractContextManager[DagsterInstance]] | None,
        every: float,
        report: Callable[[str], None],
    ) -> None:
        self._clusters, self._capabilities, self._instance = clusters, capabilities, instance
        self._every, self._report = every, report
        self.calls = Calls()
        """Calls of Dagster's database."""
        self._lock = threading.Lock()
        self._looked: float | None = None
        """When the last look began, by `time.monotonic()`."""
        self._found = Look(0, ())

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def samples(self) -> list[Sample]:
        """The metrics of `look`.

        Raises:
            Busy: a look goes on, as the cluster manager does not answer.
        """
        return [each for cluster in self.look().clusters for each in cluster.samples]

    def look(self) -> Look:
        """What the last look has brought, after another look where that was too long ago.

        Raises:
            Busy: a look goes on, as the cluster manager does not answer.
        """
        if not self._lock.acquire(timeout=WAITING):
            raise Busy(f"a look has gone on for more than {WAITING:g} s")
        try:
            began = time.monotonic()
            if self._looked is None or began - self._looked >= self._every:
                self._found, self._looked = Look(self._found.number + 1, self._look()), began
            return self._found
        finally:
            self._lock.release()

    def _look(self) -> list[ClusterLook]:
        until, seen = time.monotonic() + LOOKING, list[_Seen]()
        for number, watched in enumerate(self._clusters):
            left = max(0.5, until - time.monotonic()) / (len(self._clusters) - number)
            now, began = time.time(), time.monotonic()
            sightings = watched.collector.collect(watched.cluster, watched.streams, deadline=left)
            seen.append(_Seen(watched, sightings, now, time.monotonic() - began))
        known, fault = self._of_dagster(time.time())
        return [self._look_at(each, known.get(each.watched.owner), fault) for each in seen]

    def _look_at(self, seen: _Seen, known: _OfDagster | None, fault: str) -> ClusterLook:
        watched, now = seen.watched, seen.at
        streams, owner = watched.streams, watched.owner
        if known is not None:
            fault = ""
        elif self._instance is not None:
            self._report(f"{owner}: {fault}")
        known = known or _OfDagster()
        operations = {name: str(run) for name, run in known.busy.items()}
        assessments = [
            self._assess(owner, stream, seen, operations.get(stream.name), known.learned)
            for stream in streams
        ]
        rows = {
            each.stream: _row(each, operations.get(each.stream), each.stream in known.learned)
            for each in assessments
        }
        found = [each for one in assessments for each in of_stream(owner, one, rows[one.stream])]
        if streams.budget is not None:
            found += of_budget(owner, streams.budget, assessments)
        found += of_tallies(owner, known.tallies)
        found += sample(TICK, known.tick, cluster=owner)
        found += sample(LOOKED, now, cluster=owner)
        found += sample(LOOK_SECONDS, seen.took, cluster=owner)
        found += sample(LOG_READ, int(not fault), cluster=owner)
        return ClusterLook(
            *(watched, now),
            rows=worst_first(rows.values()),
            assessments={each.stream: each for each in assessments},
            samples=found,
            fault=fault,
            ticked_at=known.tick,
        )

    def _assess(
        self,
        owner: str,
        stream: Stream,
        seen: _Seen,
        operation: str | None,
        learned: Mapping[str, Learner],
    ) -> Assessment:
        """Assess one stream: a policy of a user's own that hangs keeps no other stream back."""

        def assess(sighting: Sighting) -> Assessment:
            return assess_or_say_why(
                *(stream, sighting),
                capabilities=self._capabilities,
                now=seen.at,
                operation=operation,
                learner=learned.get(stream.name),
            )

        sighting = of_another(seen.sightings[stream.name], stream, owner)
        came = self.calls.within(f"{owner} {stream.name}", lambda: assess(sighting), JUDGING)
        if isinstance(came, Assessment):
            return came
        return assess(Sighting(stream.name, error=f"its policy can't be asked: {came}"))

    def _of_dagster(self, now: float) -> tuple[Mapping[str, _OfDagster], str]:
        """What only Dagster knows of each cluster that was read, by its owner, and why the others
        were not; empty: all were."""
        if self._instance is None:
            return {}, "there is no DAGSTER_HOME whose instance could be read"
        read: dict[str, _OfDagster] = {}
        # One that hangs must not keep agents from being told of.
        came = self.calls.within("Dagster's database", lambda: self._read(read, now), ANSWERING)
        return dict(read), unread(came) if isinstance(came, Exception) else ""

    def _read(self, read: dict[str, _OfDagster], now: float) -> None:
        """Read of each cluster what Dagster knows of it, into `read`.

        Raises:
            Exception: of the first one that can't be read, when all others have been.
        """
        assert self._instance is not None
        share, faults = READING / len(self._clusters), list[Exception]()
        with self._instance() as instance:
            for watched in self._clusters:
                try:
                    read[watched.owner] = _read_of(instance, watched, now, share)
                except Exception as error:
                    faults.append(error)
        if faults:
            raise faults[0]


def _read_of(instance: DagsterInstance, watched: Watched, now: float, seconds: float) -> _OfDagster:
    streams = [*watched.streams]
    learning = [each for each in streams if learns(each)]
    pending = watched.pending(instance) if learning else {}
    return _OfDagster(
        dict(in_flight(instance, watched.streams.cluster_key, watched.cluster, now)),
        dict(watched.log.read_on(instance, streams, now, seconds)),
        watched.last_tick(instance),
        watched.learned.read_on(instance, learning, pending, now, seconds / 2),
    )


def unread(error: Exception) -> str:
    """Why Dagster's database could not be read, in words."""
    if isinstance(error, NoAnswer):
        return f"Dagster's database: {error}"
    return f"{type(error).__name__}: {error}"


def _row(assessment: Assessment, operation: str | None, learned: bool) -> Row:
    """The row of a stream. What a policy decides that learns from its minutes is not known until
    these are read.

    Args:
        learned: whether what its policy has learned is known.
    """
    found = row(assessment, operation=operation)
    decides = assessment.evaluation is not None and assessment.waits is None
    if learned or not (decides and learns(assessment.situation.stream)):
        return found
    why = "its policy learns from its minutes, which are not read yet"
    # That it has too few executors at its maximum is the policy's judgement, too.
    failing = tuple(each for each in found.failing if each.check != Health.BELOW_MAXIMUM.value)
    return replace(
        found,
        decision="the autoscaler decides",
        reason=why,
        acts=False,
        waits=None,
        failing=failing,
    )
