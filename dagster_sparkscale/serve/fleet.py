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
from dagster_sparkscale.driver.metrics.exposition import Sample, sample
from dagster_sparkscale.in_flight import InFlight, in_flight
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
from dagster_sparkscale.watch.sighting import of_another

LOOKING = 5.0
"""Seconds for the agents of all clusters to answer: Prometheus waits 10 s for a scrape."""
READING = 2.0
"""Seconds for the event log, and half of that for what policies have learned."""
ANSWERING = 4.0
"""Seconds after which a look goes on without Dagster, whose database may hang."""
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
        until, found = time.monotonic() + LOOKING, list[ClusterLook]()
        for number, watched in enumerate(self._clusters):
            left = max(0.5, until - time.monotonic()) / (len(self._clusters) - number)
            found.append(self._look_at(watched, left))
        return found

    def _look_at(self, watched: Watched, deadline: float) -> ClusterLook:
        streams, owner, now, began = watched.streams, watched.owner, time.time(), time.monotonic()
        sightings = watched.collector.collect(watched.cluster, streams, deadline=deadline)
        took = time.monotonic() - began
        known, fault = self._of_dagster(watched, now)
        operations = {name: str(run) for name, run in known.busy.items()}
        assessments = [
            assess_or_say_why(
                *(stream, of_another(sightings[stream.name], stream, owner)),
                capabilities=self._capabilities,
                now=now,
                operation=operations.get(stream.name),
                learner=known.learned.get(stream.name),
            )
            for stream in streams
        ]
        found = [each for one in assessments for each in of_stream(owner, one)]
        if streams.budget is not None:
            found += of_budget(owner, streams.budget, assessments)
        found += of_tallies(owner, known.tallies)
        found += sample(TICK, known.tick, cluster=owner)
        found += sample(LOOKED, now, cluster=owner)
        found += sample(LOOK_SECONDS, took, cluster=owner)
        found += sample(LOG_READ, int(not fault), cluster=owner)
        return ClusterLook(
            *(watched, now),
            rows=worst_first(
                _row(each, operations.get(each.stream), each.stream in known.learned)
                for each in assessments
            ),
            assessments={each.stream: each for each in assessments},
            samples=found,
            fault=fault,
            ticked_at=known.tick,
        )

    def _of_dagster(self, watched: Watched, now: float) -> tuple[_OfDagster, str]:
        """What only Dagster knows, and why that could not be read; empty: it could."""
        if self._instance is None:
            return _OfDagster(), "there is no DAGSTER_HOME whose instance could be read"
        # One that hangs must not keep agents from being told of.
        came = self.calls.within(
            watched.owner, lambda: self._read(watched, now), ANSWERING / len(self._clusters)
        )
        if isinstance(came, _OfDagster):
            return came, ""
        fault = unread(came)
        self._report(f"{watched.owner}: {fault}")
        return _OfDagster(), fault

    def _read(self, watched: Watched, now: float) -> _OfDagster:
        assert self._instance is not None
        streams, share = [*watched.streams], READING / len(self._clusters)
        learning = [each for each in streams if learns(each)]
        with self._instance() as instance:
            pending = watched.pending(instance) if learning else {}
            return _OfDagster(
                dict(in_flight(instance, watched.streams.cluster_key, watched.cluster, now)),
                dict(watched.log.read_on(instance, streams, now, share)),
                watched.last_tick(instance),
                watched.learned.read_on(instance, learning, pending, now, share / 2),
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
    return replace(found, decision="the autoscaler decides", reason=why, acts=False, waits=None)
