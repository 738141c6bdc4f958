"""A simulated stream in time: its batches, its executors, and what an agent would report of it.

Discrete events: a batch begins or ends, executors arrive or fail. Pure.
"""

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple

from dagster_sparkscale.backtest.chance import Chance
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.observe.status import Batch, Executor, Query, Receiver, Spark, Status

QUERY = "simulated"
"""The name of the one query."""
_NEVER = math.inf
_LOST = 0.5
"""Share of its tasks in progress that an executor has done on average when it fails."""


class Done(NamedTuple):
    """A batch that is done."""

    began: float
    """When its processing began, seconds from the beginning."""
    records: int
    gathered: float
    """Seconds in which its records came."""
    processing: float
    """Seconds."""
    delay: float
    """Seconds from when its oldest record came until it was done; 0 where it has no record."""
    executors: int
    """Executors that worked on it when it was done."""
    failed: bool = False

    @property
    def ended(self) -> float:
        """When it was done, seconds from the beginning."""
        return self.began + self.processing


class _Formed(NamedTuple):
    """A batch that has its records and has not begun."""

    due: float
    records: int
    since: float
    """When the oldest of its records came."""
    until: float
    """When the oldest of the next batch came."""
    behind: float
    """Seconds since the oldest record came that the source has left."""
    left: int
    """Records that the source has left."""


@dataclass(slots=True)
class _Running:
    """The batch in progress."""

    formed: _Formed
    began: float
    scheduling_ms: int
    noise: float
    cost: float
    executors: int
    worked_from: float
    """When its executors began, or since when what follows holds."""
    left: float
    """Share of its work that was left then."""
    ends: float
    failed: bool


class Machine:
    """One run of an application under a load, from second 0 on."""

    def __init__(self, application: Application, load: Load, executors: int, seed: int) -> None:
        """Begin with executors that are there, and nothing that waits."""
        self._is = application
        self._load = load
        self._interval = application.interval
        self._chance = Chance(seed, application.noise)
        self._cost_times = [at for at, _ in application.costs]
        self._tasks = application.tasks
        self.now = 0.0
        self.staying = self.requested = executors
        self.leaving = 0
        self._starting: list[float] = []
        self._fails_at = _NEVER
        self._draw_failure()
        self.executor_seconds = 0.0
        self.changes: list[tuple[float, int]] = [(0.0, executors)]
        """Since when so many executors have been registered."""
        self.done: list[Done] = []
        self._reported: list[Batch] = []
        self._waiting: deque[_Formed] = deque()
        self._running: _Running | None = None
        self._taken = 0
        """Records that batches have taken out of the source."""
        self._taken_until = 0.0
        """When the oldest record came that is in no batch."""
        self._last_due = 0.0
        """DStreams: when the last batch was formed. Structured Streaming: when the last began."""
        self._processing_ms: int | None = None
        """How long the last batch took; None: it found nothing."""
        self._due = 0
        """Batches of DStreams that were formed."""
        self._told: _Formed | None = None
        """The last batch that was done."""

    @property
    def registered(self) -> int:
        """Executors that have registered, those that are leaving included."""
        return self.staying + self.leaving

    @property
    def undone_since(self) -> float:
        """When the oldest record came that is in no batch which is done."""
        if self._running is not None:
            return self._running.formed.since
        return self._waiting[0].since if self._waiting else self._taken_until

    def request(self, executors: int) -> None:
        """Ask for so many executors in all: new ones work after the start delay, and who leaves
        goes after the batch in progress."""
        self.requested = executors
        self._match(self.now + self._is.start_delay)

    def have(self, executors: int) -> None:
        """Have so many executors from now on, whoever asked for them and when."""
        self.requested = executors
        self._starting.clear()
        self._match(self.now)

    def _match(self, arrival: float) -> None:
        surplus = self.staying + len(self._starting) - self.requested
        if surplus < 0:
            if arrival > self.now:
                self._starting += [arrival] * -surplus
                self._starting.sort()
            else:
                self._arrive(-surplus)
        elif surplus > 0:
            # Those that are not there yet are not waited for.
            kept = max(0, len(self._starting) - surplus)
            surplus -= len(self._starting) - kept
            del self._starting[kept:]
            if surplus:
                self.staying -= surplus
                self.leaving += surplus
                self._draw_failure()
                if self._running is None:
                    self._leave()

    def advance(self, until: float) -> None:
        """Let everything happen until a moment, that included."""
        while True:
            batch = self._running.ends if self._running is not None else self._next_begin()
            at = min(batch, self._starting[0] if self._starting else _NEVER, self._fails_at)
            if at > until:
                break
            self._pass(at)
            if at == batch:
                if self._running is None:
                    self._begin()
                else:
                    self._end(self._running)
            elif at == self._fails_at:
                self._fail()
            else:
                count = bisect_right(self._starting, at)
                del self._starting[:count]
                self._arrive(count)
        self._pass(until)

    def _pass(self, at: float) -> None:
        self.executor_seconds += (at - self.now) * self.registered
        self.now = at

    def _counted(self) -> None:
        """Note a change of the executors that are registered."""
        if self.changes[-1][0] == self.now:
            self.changes.pop()
        if not self.changes or self.changes[-1][1] != self.registered:
            self.changes.append((self.now, self.registered))

    # Batches

    def _next_begin(self) -> float:
        """When the next batch can begin, as no batch is in progress."""
        if self._is.queues:
            if self._waiting:
                return self.now
            return max(self.now, (self._due + 1) * self._interval)
        # Not before its trigger: the next whole interval after the one before began.
        trigger = (math.floor(self._last_due / self._interval + 1e-9) + 1) * self._interval
        return max(self.now, trigger)

    def _form_due(self) -> None:
        """Form the batches of DStreams that are due."""
        while (due := (self._due + 1) * self._interval) <= self.now:
            self._due += 1
            self._waiting.append(self._form(due))
            self._last_due = due

    def _form(self, at: float) -> _Formed:
        """Take what the source has, as far as the limit lets a batch."""
        there = int(self._load.arrived(at) + 1e-6)
        since, most, records = self._taken_until, self._is.max_records, there - self._taken
        until = at
        if most is not None and records > most:
            records = most
            until = self._load.came(self._taken + records)
        self._taken += records
        self._taken_until = until
        return _Formed(at, records, since, until, at - until, there - self._taken)

    def _begin(self) -> None:
        scheduling = 0
        if self._is.queues:
            self._form_due()
            formed = self._waiting.popleft()
            scheduling = round((self.now - formed.due) * 1000)
        else:
            formed = self._form(self.now)
            self._last_due = self.now
            if not formed.records:
                self._processing_ms, self._told = None, formed
                self.done.append(
                    Done(self.now, 0, formed.until - formed.since, 0.0, 0.0, self.staying)
                )
                self._reported.append(Batch(QUERY, self.now, 0, 0, 0))
                return
            # The agent's: how much longer than its interval the one before took.
            scheduling = max(0, (self._processing_ms or 0) - round(self._interval * 1000))
        noise, failed = self._chance.factor(), self._chance.happens(self._is.batch_failures)
        if failed and not self._is.queues:
            noise, failed = 2 * noise, False
        index = bisect_right(self._cost_times, self.now)
        cost = self._is.costs[index - 1][1] if index else 1.0
        self._running = batch = _Running(
            *(formed, self.now, scheduling, noise, cost, self.staying),
            worked_from=self.now + self._is.overhead * noise,
            left=1.0,
            ends=0.0,
            failed=failed,
        )
        self._set_end(batch)

    def _set_end(self, batch: _Running) -> None:
        busy = self._is.busy(batch.formed.records, batch.executors, batch.cost) * batch.noise
        seconds = batch.worked_from + batch.left * busy - batch.began
        # Spark counts in whole milliseconds.
        batch.ends = batch.began + round(seconds, 3) if seconds < _NEVER else _NEVER

    def _worked(self, batch: _Running) -> None:
        """Count what was done of a batch until now."""
        if self.now > batch.worked_from:
            busy = self._is.busy(batch.formed.records, batch.executors, batch.cost) * batch.noise
            if busy:
                batch.left = max(0.0, batch.left - (self.now - batch.worked_from) / busy)
            batch.worked_from = self.now

    def _end(self, batch: _Running) -> None:
        formed, took = batch.formed, batch.ends - batch.began
        self._running, self._told = None, formed
        self._processing_ms = round(took * 1000)
        delay = self.now - formed.since if formed.records else 0.0
        gathered = formed.until - formed.since
        of = (batch.began, formed.records, gathered, took, delay, batch.executors)
        self.done.append(Done(*of, batch.failed))
        self._reported.append(
            Batch(
                *(QUERY, self.now, self._processing_ms, batch.scheduling_ms, formed.records),
                failed=batch.failed,
                executors=batch.executors,
                limit=self._is.max_records,
            )
        )
        if self.leaving:
            self._leave()

    # Executors

    def _arrive(self, count: int) -> None:
        self.staying += count
        self._counted()
        self._draw_failure()
        if (batch := self._running) is not None:
            self._worked(batch)
            batch.executors += count
            self._set_end(batch)

    def _leave(self) -> None:
        self.leaving = 0
        self._counted()

    def _fail(self) -> None:
        self.staying -= 1
        self._counted()
        self._draw_failure()
        self._starting.append(self.now + self._is.start_delay)
        self._starting.sort()
        if (batch := self._running) is not None:
            self._worked(batch)
            if batch.left < 1:
                again = _LOST * min(1.0, self._is.workload.slots / self._tasks)
                batch.left = min(1.0, batch.left + again)
            batch.executors -= 1
            self._set_end(batch)

    def _draw_failure(self) -> None:
        rate = self._is.executor_failures * self.staying / 3600
        self._fails_at = self.now + self._chance.until(rate)

    # What an agent reports

    def status(self, window: float) -> Status:
        """What the stream's agent would answer now, by a clock that began with the run.

        Args:
            window: the seconds whose batches it has, and the batch before them.
        """
        batch = self._running
        if self._is.queues:
            self._form_due()
        told, lag = self._told, None
        if told is not None and self._is.tells_lag:
            lag = int(told.behind * 1000)
        query = Query(
            QUERY,
            active=True,
            interval_ms=round(self._interval * 1000),
            running_ms=None if batch is None else int((self.now - batch.began) * 1000 + 1e-6),
            behind_ms=lag,
            source_shards=self._is.shards,
            trigger=None if self._is.queues else "processing time",
            heard_at=self._reported[-1].completed_at if self._reported else 0.0,
        )
        if self._is.queues:
            query = replace(
                query,
                pending_batches=len(self._waiting) + (batch is not None),
                backlog_records=sum(each.records for each in self._waiting),
            )
        elif told is not None:
            query = replace(query, backlog_records=told.left)
        return Status(
            stream=QUERY,
            epoch=1,
            phase="running",
            now=self.now,
            started_at=0.0,
            last_seq=len(self._reported),
            spark=Spark(0.0, self.registered, self.requested, self.leaving, None, self._at_work()),
            queries=(query,),
            batches=self._recent(self.now - window),
            receivers=self._receivers(),
        )

    def _recent(self, since: float) -> tuple[Batch, ...]:
        """The batches that were done later, and the one before them."""
        first = len(self._reported)
        while first and self._reported[first - 1].completed_at > since:
            first -= 1
        return tuple(self._reported[max(0, first - 1) :])

    def _at_work(self) -> tuple[Executor, ...]:
        tasks, slots = 0, self._is.workload.slots
        if (batch := self._running) is not None and self.now >= batch.worked_from:
            tasks = min(self._tasks, self._is.places(self.staying))
        found = []
        for number in range(self.registered):
            active = min(tasks, slots)
            tasks -= active
            found.append(Executor(str(number), "simulated", slots, active))
        return tuple(found)

    def _receivers(self) -> tuple[Receiver, ...]:
        places = self.staying * self._is.workload.slots
        return tuple(
            Receiver(number, executor="0" if number < places else None)
            for number in range(self._is.workload.pinned)
        )
