"""What Dagster is told of in one tick: each stream when it is its turn, then the fleet.

What there is no room for, the next tick tells: the minutes are kept, and what has changed is still
another than what was told.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import dagster as dg
from dagster import DagsterInstance

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.deadlines import NoAnswer
from dagster_sparkscale.declare.stream import LONGEST_REPORT
from dagster_sparkscale.markdown import cut
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.minutes import minute as minute_of
from dagster_sparkscale.operations import asset_key
from dagster_sparkscale.watch.assess import Assessment
from dagster_sparkscale.watch.board import Beside
from dagster_sparkscale.watch.fleet.events import (
    carrying_minutes,
    fleet_event,
    fleet_key,
    last_picture,
    recall,
    told_again,
)
from dagster_sparkscale.watch.fleet.orphan import Orphan
from dagster_sparkscale.watch.fleet.problems import Problems
from dagster_sparkscale.watch.fleet.rows import UNJUDGED, Row, orphan_row, row
from dagster_sparkscale.watch.fleet.verdict import headline
from dagster_sparkscale.watch.memory import Memory, StreamMemory
from dagster_sparkscale.watch.orphans import orphan_events
from dagster_sparkscale.watch.page.events import AGAIN, Event, check_keys, events_of
from dagster_sparkscale.watch.page.occasions import has_come
from dagster_sparkscale.watch.page.outcomes import Outcomes
from dagster_sparkscale.watch.page.recent import Recent
from dagster_sparkscale.watch.process import UNREAD, Watch
from dagster_sparkscale.watch.turns import PATIENCE, Turn, in_turn

READ_AHEAD, READING = 100, 2.0
"""Checks whose stored outcomes one query reads at most, those of ten streams or more: of many more
Postgres would read the whole table. And seconds after which no such query more is begun."""
REASON = 1000
"""Characters of a decision's reason at most, in a minute: a policy of a user may say anything."""


class Telling:
    """What Dagster is told of in one tick."""

    def __init__(
        self,
        watch: Watch,
        context: dg.SensorEvaluationContext,
        instance: DagsterInstance,
        memory: Memory,
        cluster: ClusterManager,
        owner: str,
        now: float,
        faults: list[str],
    ) -> None:
        """
        Args:
            instance: Dagster's, as the tick reads it.
            owner: the code location and cluster that tells.
            now: when the tick began, seconds since the epoch.
            faults: what could not be read or told; it is added to.
        """
        self._watch, self._context, self._memory = watch, context, memory
        self._instance = instance
        self._cluster, self._owner, self._now, self._faults = cluster, owner, now, faults
        self._fleet_key = fleet_key(watch.streams.cluster_key)
        self._events: list[Event] = []
        self._of_fleet: list[dg.AssetObservation] = []
        self._rows: dict[str, Row] = {}
        self._problems: Mapping[str, Problems] = {}
        """The problems of all streams of the cluster, once their rows are known."""
        self._minutes: dict[str, Minute] = {}
        self._outcomes = Outcomes(instance)
        self._is_whole = False
        """Whether the rows are those of all streams of the cluster."""
        self._all_minutes = True
        """Whether all minutes are known that the fleet's events carry."""
        self._unwatched: Collection[str] = ()

    @property
    def events(self) -> Sequence[Event]:
        return [*self._events, *self._of_fleet]

    @property
    def unwatched(self) -> Collection[str]:
        """Streams that no sensor evaluates at the moment, or perhaps none: their problems are
        remembered by the first one."""
        if not self._watch.shard.leads:
            return ()
        return self._unwatched if self._is_whole else self._memory.fleet.problems.keys()

    def restore(self) -> None:
        """Read the minutes back that events of the fleet carry, and how fast events are stored."""
        if self._memory.left_out:
            what = "; ".join(self._memory.left_out)
            self._faults.append(f"the cursor of the last tick had no room for {what}")
        try:
            self._watch.pace.measure(self._instance)
            lost = self._watch.spills.restore(
                *(self._memory, self._instance, self._fleet_key, self._owner, self._now)
            )
        except Exception as error:  # they wait, and so do the events of their streams
            self._all_minutes = False
            self._say("minutes that wait can't be read", error)
            return
        if lost is not None:
            self._faults.append(lost)

    def tell(
        self,
        assessments: Mapping[str, Assessment],
        unknown: Collection[str],
        is_room: Callable[[], bool],
        take: Callable[[int, int], None],
    ) -> None:
        """Tell of as many streams as there is room for, and keep the minutes of the others.

        Args:
            unknown: streams of which it is not known what was told.
            is_room: whether there is room for one stream more.
            take: takes room for so many events and characters.
        """
        self._watch.recents.tick(self._watch.shard.streams)
        self._read_operations()
        turns = [turn for one in assessments.values() if (turn := self._turn(one)) is not None]
        order, waiting = in_turn(turns, self._now), 0
        self._read_outcomes(order)
        for name in order:
            known, recent = self._memory.of(name), self._recent(name)
            if recent is None:
                continue
            if name not in unknown and is_room() and (self._all_minutes or not known.spilled_at):
                self._tell_of(assessments[name], recent, take)
            else:
                self._keep(name)
                waiting += 1
        if waiting:
            self._faults.insert(
                0, f"told of {len(turns) - waiting} of {len(turns)} streams: the rest follows"
            )
        self._watch.rows = {**self._rows}

    def _turn(self, assessment: Assessment) -> Turn | None:
        """When it is a stream's turn; None: nothing is to be told of it. Its row and its minute
        are noted."""
        stream, decision = assessment.situation.stream, assessment.decision
        name, known = stream.name, self._memory.of(stream.name)
        known.checks.pop("orphan", None)
        if assessment.sighting.late and self._is_patient(known):
            self._rows[name] = self._watch.rows.get(name) or _not_judged(row(assessment))
            return None
        self._minutes[name] = minute = minute_of(
            *(self._now, assessment.state, assessment.epoch, assessment.evaluation),
            str(decision) if assessment.acts else None,
            cut(decision.reason, REASON) if assessment.acts else None,
        )
        try:
            known.usage = known.usage.after(minute, known.last_at)
            hours = round(known.usage.executor_hours, 2) if known.usage.measured_hours else None
            self._rows[name] = shown = row(assessment, executor_hours=hours)
        except Exception as error:  # what can't be told of one must not silence the others
            self._say(f"{name}: can't be told of", error)
            self._keep(name)
            return None
        changed = known.told.headline != headline(shown)
        return Turn(name, assessment.acts, changed, known.told.at, stream.report_every)

    def _is_patient(self, known: StreamMemory) -> bool:
        """Whether a stream for which there was no time stays as it was seen last."""
        assert self._watch.since is not None
        since = max(known.last_at, self._watch.since)
        return 0 <= self._now - since < PATIENCE

    def _recent(self, name: str) -> Recent | None:
        """The last hours of a stream, this minute included; None: they can't be read, and the
        minute is kept."""
        key, known = asset_key(self._watch.shard.streams[name]), self._memory.of(name)
        try:
            recent = self._watch.recents.of(self._instance, name, key, known)
            recent.add(self._minutes[name])
            recent.operated = self._watch.operated.of(name)
            self._watch.learners.add(name, self._minutes[name])
        except Exception as error:
            self._say(f"{name}: can't be told of", error)
            self._keep(name)
            return None
        return recent

    def _tell_of(
        self, assessment: Assessment, recent: Recent, take: Callable[[int, int], None]
    ) -> None:
        name, of = assessment.stream, (self._instance, self._watch.capabilities, assessment)
        try:
            known = self._memory.of(name)
            seen = self._rows[name], self._minutes[name]
            new = [*events_of(*of, *seen, known, recent, self._outcomes)]
        except Exception as error:
            self._say(f"{name}: can't be told of", error)
            # `events_of` comes to its end, or remembers nothing.
            self._keep(name)
            return
        take(len(new), sum(len(repr(event)) for event in new))
        self._events += new

    def tell_of_fleet(self, orphans: Sequence[Orphan], unknown: Collection[str]) -> None:
        """Tell of the fleet, where it is to be told of now. That it can't be must not cost the
        streams their cursor.

        Args:
            unknown: streams of which it is not known what was told.
        """
        shard, fleet = self._watch.shard, self._memory.fleet
        try:
            # Dagster may have dropped the tick in which this process has seen them.
            fleet.problems |= shard.board.problems_of(shard.sensor)
            known = self._recall(unknown, {orphan.driver.stream for orphan in orphans})
            fleet.see(self._rows.values())
            if not known and (shard.leads or shard.sensor not in shard.board.ticked):
                shard.board.tells_later(shard.sensor)
                return  # problems would be told to have begun now
            if not shard.leads:
                mine = {name: fleet.problems.get(name, {}) for name in self._rows}
                shard.board.tell(shard.sensor, self._rows.values(), mine)
                return
            beside = shard.board.beside(shard.sensor, self._now)
            if beside is None:
                return  # in a picture of a part, the others' problems would be over
            self._events += orphan_events(orphans, self._memory)
            self._add(beside, [orphan_row(orphan, now=self._now) for orphan in orphans])
            self._of_fleet = [*self._fleet_event()]
        except Exception as error:
            self._say("the fleet can't be told of", error)

    def _add(self, beside: Beside, orphans: Sequence[Row]) -> None:
        """Add what others have found to what this sensor tells of the fleet. What nobody else
        remembers of it, this one does."""
        fleet = self._memory.fleet
        self._unwatched = {row.stream for row in beside.unwatched}
        for name in self._unwatched & beside.problems.keys():
            fleet.problems.setdefault(name, beside.problems[name])
        fleet.see([*beside.unwatched, *orphans])
        theirs = {row.stream: beside.problems.get(row.stream, {}) for row in beside.rows}
        self._problems = {**fleet.problems, **theirs}
        self._rows |= {row.stream: row for row in (*beside.rows, *beside.unwatched, *orphans)}
        self._is_whole = True

    def _recall(self, unknown: Collection[str], orphans: Collection[str]) -> bool:
        """Remember what stood when the fleet was last told of, where the cursor does not say, or
        may not say: Dagster may have dropped the ticks in which that was seen.

        Args:
            orphans: the names of orphans.

        Returns:
            Whether that is known, or counts as lost.
        """
        watch, fleet = self._watch, self._memory.fleet
        if fleet.told_at and not unknown and watch.recalled:
            return True
        streams = None
        if fleet.told_at:
            streams = {*unknown} if watch.recalled else {*self._rows, *orphans}
        try:
            known = watch.seen_at if fleet.told_at else {}
            recall(fleet, self._instance, self._fleet_key, self._owner, streams, known)
        except Exception as error:  # the next tick tries again
            self._say("what stood before can't be read", error)
            watch.unrecalled += 1
            return watch.unrecalled > UNREAD
        watch.recalled, watch.unrecalled = True, 0
        if not watch.shard.leads:
            fleet.told_at = fleet.told_at or self._now
        return True

    def spill(self) -> bool:
        """Have the fleet's event carry the minutes for which the cursor has no room."""
        at = self._watch.shard.board.spill_at(self._now)
        text = self._watch.spills.spill(self._memory, self._owner, at)
        if text is None:
            return False
        if not self._of_fleet:
            try:
                self._of_fleet = [*self._fleet_event(due=True)]
            except Exception as error:
                self._say("the fleet can't be told of", error)
                self._of_fleet = [dg.AssetObservation(self._fleet_key)]
        self._of_fleet = [carrying_minutes(self._of_fleet[0], text)]
        return True

    def _fleet_event(self, due: bool = False) -> Sequence[dg.AssetObservation]:
        board, instance = self._watch.shard.board, self._instance
        if not self._is_whole:
            # It carries minutes only, and the page goes on showing what was last told.
            last = board.picture or last_picture(instance, self._fleet_key)
            return [told_again(last) if last else dg.AssetObservation(self._fleet_key)]
        of = self._watch.streams, self._rows.values(), self._problems, self._memory.fleet, instance
        before = replace(self._memory.fleet)
        try:
            unwatched = board.unwatched(self._watch.shard.sensor, self._now)
            of_all = *of, self._cluster, self._owner, self._now
            events = [*fleet_event(*of_all, due=due, unwatched=unwatched, ticked=board.ticked)]
        except Exception:
            # Nothing was told: the next tick must not take it for told, and wait for minutes.
            self._memory.fleet = before
            raise
        for event in events:
            board.picture = event
        return events

    def _keep(self, name: str) -> None:
        """Have the next event of a stream tell of this minute, too."""
        known, minute = self._memory.of(name), self._minutes[name]
        known.add(minute)
        known.advanced |= bool(minute.input_rate)
        if minute.at - known.pending["at"][0] >= LONGEST_REPORT:  # no more than an event may have
            known.forget_before(minute.at - LONGEST_REPORT)

    def _read_operations(self) -> None:
        try:
            self._watch.operated.read_on(self._instance, self._now)
        except Exception as error:  # what was done of late must not hide how streams are
            self._say("what was done can't be read", error)

    def _read_outcomes(self, names: Iterable[str]) -> None:
        """Read ahead what Dagster has stored of the checks of those whose next event looks for
        that."""
        keys: list[dg.AssetCheckKey] = []
        for name in names:
            stream, known = self._watch.shard.streams[name], self._memory.of(name)
            of = known.told.at, self._now
            if has_come(name, AGAIN, *of) and has_come(name, stream.report_every, *of):
                keys += check_keys(stream, known)
        until = time.monotonic() + READING
        # Where that has failed, each is asked for alone in the next tick: at less a time.
        reads, self._watch.reads_ahead = self._watch.reads_ahead, True
        for first in range(0, len(keys) if reads else 0, READ_AHEAD):
            if time.monotonic() >= until:
                return
            try:
                self._outcomes.read_ahead(keys[first : first + READ_AHEAD])
            except Exception as error:
                self._watch.reads_ahead = False
                self._say("what is stored of checks can't be read", error)
                return

    def _say(self, what: str, error: Exception) -> None:
        if isinstance(error, NoAnswer):
            return  # the tick says so once, and not of each stream
        text = f"{what}: {type(error).__name__}: {error}"
        self._context.log.exception(text)
        self._faults.append(text)


def _not_judged(row: Row) -> Row:
    """The row of a stream that was never looked at since the process began: no check of it has
    failed."""
    return replace(row, failing=(), untold=UNJUDGED)
