"""One evaluation of all streams of a sensor: looks, assesses, and asks for runs; `telling.py` has
Dagster told. It always ends: each part has its share of the seconds of a tick (`turns.py`)."""

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import dagster as dg

from dagster_sparkscale.autoscale.scale_down import NOTHING_ASKED
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.deadlines import NoAnswer
from dagster_sparkscale.declare.decisions import Hold
from dagster_sparkscale.declare.learner import Learner
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_flight import InFlight, in_flight
from dagster_sparkscale.lifecycle.recovery import Restart
from dagster_sparkscale.names import is_autoscaler
from dagster_sparkscale.observe.findings import Health
from dagster_sparkscale.private_dagster import code_location, sensor_cursors
from dagster_sparkscale.quantities import counted, named
from dagster_sparkscale.remedy import WithRemedy
from dagster_sparkscale.watch.assess import Assessment, assess_or_say_why
from dagster_sparkscale.watch.board import Moved
from dagster_sparkscale.watch.budget import within
from dagster_sparkscale.watch.coverage import Evaluated
from dagster_sparkscale.watch.fleet.orphan import Orphan
from dagster_sparkscale.watch.health import NOT_STOPPED
from dagster_sparkscale.watch.memory import Memory, StreamMemory
from dagster_sparkscale.watch.one_by_one import TELLING
from dagster_sparkscale.watch.orphans import remembered
from dagster_sparkscale.watch.process import UNREAD, Watch
from dagster_sparkscale.watch.sighting import Sighting, missed, of_another
from dagster_sparkscale.watch.spills import KEPT
from dagster_sparkscale.watch.telling import Telling
from dagster_sparkscale.watch.turns import (
    ASSESSING,
    LOOKING,
    Room,
    runs_of,
    to_assess,
    who_waits,
)

_SKIP_REASON_LIMIT = 4000
MANY = 10
"""Streams of which the same is said that are one line of a tick."""
_LATE = 0.9  # ticks come every 60 to 65 s and may be early by a moment: do not skip a whole one


class Tick:
    """One evaluation of all streams."""

    def __init__(
        self, watch: Watch, context: dg.SensorEvaluationContext, began: float, seconds: float
    ) -> None:
        """
        Args:
            began: when it began, by `time.monotonic()`.
            seconds: that it may take, with what Dagster takes to store.
        """
        self._watch, self._context = watch, context
        self._instance = watch.reads.of(context.instance)
        self._began, self._seconds = began, seconds
        self._streams, self._mine = watch.streams, watch.shard.streams
        self._now = time.time()
        self._memory = watch.remembered(context.cursor)
        self._cluster = self._streams.cluster(context)
        self._owner = self._streams.owner(code_location(context))
        self._faults: list[str] = []
        """What could not be read or told."""
        self._learners: dict[str, Learner | None] = {}
        """What the policies of those streams have learned that have been assessed, by name."""
        if watch.since is None:
            watch.since = self._now

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def evaluate(self) -> dg.SensorResult:
        """What Dagster is to store, and which runs it is to start."""
        unknown = self._take_over()
        self._watch.learners.tick(self._mine, self._now)
        telling = Telling(
            *(self._watch, self._context, self._instance, self._memory, self._cluster),
            *(self._owner, self._now, self._faults),
        )
        telling.restore()
        sightings = self._look()
        orphans = self._search_orphans()
        assessments = self._assess(sightings)
        requests = [
            request
            for stream in self._mine.values()
            for request in self._watch.operations.requests(
                *(stream, assessments[stream.name].decision, assessments[stream.name].epoch),
                self._now,
            )
        ]
        room = Room(self._seconds, runs=bool(requests), pace=self._watch.pace.seconds)
        with TELLING.turn():
            telling.tell(assessments, unknown, lambda: room.is_left(self._elapsed), room.take)
        telling.tell_of_fleet(orphans, unknown)
        if (unread := self._watch.reads.given_up) is not None:
            self._context.log.warning(unread)
            self._faults.insert(0, unread)
        lines = [*self._faults, *map(str, orphans), *_lines(assessments.values())]
        if requests:
            # Dagster keeps a file of each tick that logs: so none of a tick that does nothing.
            self._context.log.info("\n".join(lines))
        # Stored, it would pass for the later of both.
        self._watch.carried |= {name: self._memory.streams.pop(name) for name in unknown}
        board, remembered_streams = self._watch.shard.board, self._memory.streams.keys()
        keep = {*self._mine, *telling.unwatched, *(orphan.driver.stream for orphan in orphans)}
        keep |= remembered_streams & board.unsettled if board.has_moved else remembered_streams
        cursor = self._memory.dump(keep, telling.spill)
        self._watch.wrote = cursor, self._memory
        self._watch.cursor = None if self._watch.unread else cursor  # None settles nothing
        self._watch.pace.told(telling.events)
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else _shortened(lines),
            asset_events=telling.events,
            cursor=cursor,
        )

    def _take_over(self) -> Collection[str]:
        """Remember what another sensor has of streams that have come to this shard since. Returns
        the streams of which that can't be read: nothing of them is told or stored in this tick."""
        board, sensor = self._watch.shard.board, self._watch.shard.sensor
        streams, carried = self._memory.streams, self._watch.carried
        if self._context.cursor and self._context.cursor == self._watch.cursor:
            board.settled(sensor)  # not earlier: Dagster may drop what a tick has found
        new = self._mine.keys() - streams.keys()
        for name in carried.keys() - new:  # it is stored
            del carried[name]
        try:
            moved = board.moved_to(sensor, self._remembered)
        except Exception as error:  # the next tick tries again, and nobody forgets anything before
            text = f"other sensors' cursors can't be read: {type(error).__name__}: {error}"
            self._context.log.exception(text)
            self._faults.append(text)
            self._watch.unread += 1
            for name in new:
                streams[name] = carried.pop(name, StreamMemory())
            return new if self._watch.unread <= UNREAD else ()
        self._watch.unread = 0
        for name, found in moved.items():
            mine, known = streams.get(name), found.stream
            # This sensor's own may be from before the stream went to the other.
            if mine is None or mine.last_at < known.last_at:
                # A copy: the next tick takes it again, where this one is dropped.
                streams[name] = replace(known, checks={**known.checks})
                self._memory.spills = sorted({*self._memory.spills, *found.spills})
                if found.problems is not None:
                    self._memory.fleet.problems[name] = {**found.problems}
        for name, seen in carried.items():
            self._memory.of(name).go_on(seen)
        return ()

    def _remembered(self) -> dict[str, Moved]:
        """What all sensors of the cluster remember of each stream; of two the later."""
        found: dict[str, Moved] = {}
        for sensor, cursor in sensor_cursors(self._instance, code_location(self._context)):
            if not is_autoscaler(sensor, self._streams.cluster_key):
                continue
            memory = Memory.load(cursor)
            problems = memory.fleet.problems if memory.fleet.told_at else None
            for name, known in memory.streams.items():
                if name not in found or found[name].stream.last_at < known.last_at:
                    spills = memory.spills if known.spilled_at else ()
                    of = None if problems is None else problems.get(name, {})
                    found[name] = Moved(known, spills, of)
        # The cursor of a sensor that is no more stays as it was, whatever becomes of its streams.
        newest = max((each.stream.last_at for each in found.values()), default=0)
        return {
            name: replace(each, problems={})
            if each.problems and each.stream.last_at < newest - KEPT
            else each
            for name, each in found.items()
        }

    def _look(self) -> dict[str, Sighting]:
        """A sighting of each stream, by name."""
        elapsed = {
            name: self._now - known.decided_at
            for name, known in self._memory.streams.items()
            if known.evaluated.at
        }
        left = LOOKING * self._seconds - self._elapsed
        sightings = self._watch.collector.collect(
            self._cluster, self._mine.values(), deadline=max(0.1, left), elapsed=elapsed
        )
        for name, found in sightings.items():
            known = self._memory.of(name)
            sighting = missed(found, known.epoch)
            sightings[name] = of_another(sighting, self._mine[name], self._owner)
            if sightings[name] is sighting and (driver := sighting.driver) is not None:
                known.epoch = None if driver.state is DriverState.STOPPED else driver.epoch
        return sightings

    def _search_orphans(self) -> Sequence[Orphan]:
        if not self._watch.shard.leads:
            return ()
        declared, left = self._streams.by_name, LOOKING * self._seconds - self._elapsed
        return self._watch.orphans.search(
            *(self._cluster, declared, self._owner, max(0.1, left)),
            remembered(self._memory, declared),
        )

    def _assess(self, sightings: Mapping[str, Sighting]) -> dict[str, Assessment]:
        """An assessment of each stream, by name."""
        assessments = self._first_assessments(sightings)
        busy, untold = dict[str, InFlight](), None
        # Most ticks hold everything, and need not ask what is in flight.
        if any(map(_waits_for_runs, assessments.values())):
            busy, untold = self._in_flight()
        decided = set[str]()
        for name, stream in self._mine.items():
            assessment, known = assessments[name], self._memory.of(name)
            status = assessment.situation.status
            evaluated = self._is_due(stream) and assessment.evaluation is not None
            if name in busy and _waits_for(busy[name], assessment):
                # Not decided: it is due again at the next tick.
                assessments[name] = self._assessed(stream, assessment.sighting, str(busy[name]))
            elif untold is not None and assessment.acts:
                assessments[name] = _held(assessment, untold)
            elif evaluated:
                decided.add(name)
            if evaluated and status is not None:
                # Also beside an operation: what was before it says little of what comes after it.
                # To tenths: digits without an end can't be compressed.
                at = math.floor(status.now * 10) / 10
                known.evaluated = Evaluated(at, status.last_seq)
                known.asked = assessment.asked or NOTHING_ASKED
        assessments = self._within_budget(assessments)
        # What the budget has granted is kept for those that wait, too.
        for name in self._over_the_limit(assessments):  # they are due again at the next tick
            assessments[name] = _held(assessments[name], "others come first in this tick")
            decided.discard(name)
        for name in decided:
            self._memory.of(name).decided_at = self._now
        return assessments

    def _within_budget(self, assessments: dict[str, Assessment]) -> dict[str, Assessment]:
        if (budget := self._watch.budget) is None:
            return assessments
        board, sensor = self._watch.shard.board, self._watch.shard.sensor
        with board.shares_beside(sensor) as beside:
            assessments, shares = within(budget, assessments, self._memory, self._now, beside)
            board.keep_shares(sensor, shares)
        return assessments

    def _over_the_limit(self, assessments: Mapping[str, Assessment]) -> Collection[str]:
        """The streams for which a run is wanted, and none is asked for in this tick: there would be
        too many."""
        wanted, failed, first = dict[str, float](), set[str](), set[str]()

        def past(at: float) -> float:
            """What is later than now is from before the clock was set back: long ago."""
            return at if at <= self._now else 0.0

        for name, assessment in assessments.items():
            if not assessment.acts:
                continue
            since, driver = self._memory.of(name).decided_at, assessment.sighting.driver
            if driver is not None and driver.state is DriverState.FAILED:
                failed.add(name)
                since = past(driver.submitted_at)
                asked = past(self._watch.asked_at.get(name, 0.0))
                # A run that fails before it has started a driver leaves no other trace. Such
                # streams must not keep all others waiting.
                if asked <= since:
                    first.add(name)
                since = max(since, asked)
            wanted[name] = past(since)
        waiting = who_waits(wanted, first, runs_of(self._streams.shards))
        self._watch.asking = dict.fromkeys(failed - {*waiting}, self._now)
        if waiting:
            runs = f"{len(wanted) - len(waiting)} of {len(wanted)} runs"
            self._faults.append(f"{runs} are asked for: the rest follows")
        return waiting

    def _in_flight(self) -> tuple[dict[str, InFlight], str | None]:
        """The operation in flight of each stream, and why these are not known; None: they are."""
        where = (self._streams.cluster_key, self._cluster, self._now)
        try:
            return dict(in_flight(self._instance, *where, self._mine)), None
        except NoAnswer as error:
            return {}, f"which operations are in progress can't be told: {error}"

    def _first_assessments(self, sightings: Mapping[str, Sighting]) -> dict[str, Assessment]:
        """An assessment of each stream; of those that there is no time for, one that says so."""
        failed = {
            name
            for name, sighting in sightings.items()
            if sighting.driver is not None and sighting.driver.state is DriverState.FAILED
        }
        decided = {name: self._memory.of(name).decided_at for name in sightings}
        until = ASSESSING * self._seconds
        found, left_out = {}, []
        for name in to_assess(decided, failed):
            sighting = sightings[name]
            if self._elapsed > until and not sighting.late:
                why = f"not judged within {until:.1f} s: too many streams, or a slow machine"
                sighting = replace(sighting, status=None, error=why, late=True)
                left_out.append(name)
            found[name] = self._assess_and_learn(self._mine[name], sighting)
        self._watch.collector.first(left_out)
        return {name: found[name] for name in sightings}

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
            learner=None if sighting.late else self._learner(stream, known),
        )

    def _learner(self, stream: Stream, known: StreamMemory) -> Learner | None:
        """What its policy has learned; read back once a tick, however often it is assessed."""
        name = stream.name
        if name not in self._learners:
            self._learners[name] = self._learned(stream, known)
        return self._learners[name]

    def _learned(self, stream: Stream, known: StreamMemory) -> Learner | None:
        try:
            return self._watch.learners.of(self._instance, stream, known)
        except NoAnswer:
            return None
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


def _waits_for(run: InFlight, assessment: Assessment) -> bool:
    """Whether nothing is done to a stream beside that run."""
    if isinstance(assessment.decision, Restart):
        return run.bars_recovery
    return _waits_for_runs(assessment)


def _held(assessment: Assessment, why: str) -> Assessment:
    """Nothing is done to a stream, for it may be in the middle of something."""
    decision = assessment.decision
    held = Hold(WithRemedy(f"{why}; otherwise: {decision}: ", decision.reason))
    return replace(assessment, decision=held, waits=why)


def _waits_for_runs(assessment: Assessment) -> bool:
    """Whether a run in flight changes what is decided or said: of what is to be done, and of a stop
    or a start, which it may be in the middle of."""
    mark = assessment.health[Health.RUNNING].mark
    return assessment.acts or mark == NOT_STOPPED or assessment.state in _NOT_RUNNING


_NOT_RUNNING = ("not started", DriverState.STOPPED.value)


def _lines(assessments: Iterable[Assessment]) -> list[str]:
    """What is decided of each stream, and why. Many of which the same is said are one line, behind
    those of which not many are."""
    alike: dict[str, list[Assessment]] = {}
    for one in assessments:
        alike.setdefault(f"{one.decision}: {one.decision.reason}", []).append(one)
    few = [str(one) for found in alike.values() if len(found) < MANY for one in found]
    return few + [
        f"{counted(len(found), 'stream')} ({named([one.stream for one in found], 3)}): {said}"
        for said, found in alike.items()
        if len(found) >= MANY
    ]


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
