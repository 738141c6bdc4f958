"""What the capacity policy has learned of one stream, minute by minute. Pure."""

from dataclasses import dataclass, fields
from math import ceil
from operator import attrgetter
from typing import NamedTuple, Self

from dagster_sparkscale.autoscale.capacity.demand import Demand, demand, slack
from dagster_sparkscale.autoscale.capacity.forecast import Forecast
from dagster_sparkscale.autoscale.capacity.model import PRIOR_OVERHEAD, Model
from dagster_sparkscale.autoscale.capacity.sizing import Need, Size, Tasks, needed, size
from dagster_sparkscale.autoscale.capacity.waves import Evidence
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.observe.minutes import Minute

LEAST_MINUTES = 2
"""Minutes with certain executors from which on a model is relied on."""
MOST_ERROR = 0.35
"""Relative error of its predictions from which on it is not."""
_PATIENCE = 2.5
"""Intervals from which on minutes are missing between two."""
_TICK = 60.0
"""Seconds: ticks of many streams come no faster, however short the interval is."""
_OVERDUE = 1.5
"""Batch intervals from which on a batch in progress says how many records it has at least."""
_SURE = 0.75
"""Share of what may wait without being late that is counted on: batches that take longer by chance
need the rest."""
_RENT = 2.0
"""Intervals of one executor that too many executors may cost before they go."""
_RECENTLY = 3
"""Minutes of which the most executors that were wanted stay."""
_PRIOR_ERROR = 0.0025
_WHOLE = 0.9
"""Share of an interval for which executors have been there when its batches ran on them."""
_FAILED = 1.03
"""Batch intervals of a batch from which on executors have failed to keep up."""
_REMEMBERED = 3600.0
"""Seconds for which that is remembered."""
_AS_SLOW, _STILL_AS_SLOW = 0.9, 0.6
"""Share of the time of a record at which twice as many executors are no faster; and at which they
are still not, once they were not."""
_DEARER = 1.3
"""Times what a record took on the last number that failed, from which on as many or more show that
it takes more work: it would on the first as well."""
_MOST_TIMES = 2.2
"""Times the first number that failed, up to which more are tried whatever the model says."""
_AS_MUCH, _MORE = 0.97, 0.1
"""From this share on of a load at which executors have failed, more are tried: so much more."""
_VERY_LATE = 2.5
"""Batch intervals after which no batch is done for the noise of processing times alone."""
_WARY, _WARY_FOR = 4.0, 900.0
"""Times its price that lateness has for so many seconds after a batch was very late."""
_MARGIN = 0.8
"""How much better the other w has to predict before it is used."""


class Past(NamedTuple):
    """What is remembered of the minute before."""

    at: int
    epoch: int | None
    running: bool
    registered: int | None
    requested: int | None
    backlog: int | None
    lag: float | None

    @classmethod
    def of(cls, minute: Minute) -> Self:
        """What is remembered of a minute."""
        return cls(
            minute.at,
            minute.epoch,
            minute.state == "running",
            minute.registered,
            minute.requested,
            minute.backlog,
            minute.lag,
        )


_NO_FORECAST, _NO_EVIDENCE = Forecast(), Evidence()


class Failed(NamedTuple):
    """Executors that did not keep up."""

    first: int
    """The number with which that began."""
    each: float
    """The time of a record on it, overhead apart."""
    executors: int
    """The last number that did not."""
    last_each: float
    """The time of a record on that one, overhead apart."""
    rate: float
    """Records per second that came."""
    at: int
    """Seconds since the epoch."""
    since: int
    """When the first number failed, likewise."""
    in_vain: bool
    """Whether twice as many were no faster."""


@dataclass(slots=True)
class Known:
    """What is known of a stream by its minutes. Nobody but `after` changes one, and that only a
    copy of its own: a frozen one would be copied ten times a minute."""

    workload: Workload
    price: float
    interval: float
    """Seconds between two minutes."""
    last: Past | None = None
    fluid: Model | None = None
    waves: Model | None = None
    in_waves: bool = True
    tasks: int | None = None
    """Tasks of a batch; None: not known."""
    told: bool = False
    """Whether its source tells of its shards, which decide how many tasks there are."""
    evidence: Evidence = _NO_EVIDENCE
    forecast: Forecast = _NO_FORECAST
    steady_since: int = 0
    """When the executors were last changing, seconds since the epoch."""
    now: Demand | None = None
    """What came in the last minute; None: not known."""
    wanted: Size | None = None
    """What that and all else that is known ask for; None: not known."""
    late_at: int | None = None
    """When a batch was very late last, seconds since the epoch; None: none was."""
    failed: Failed | None = None
    """The last that did not, where that is not long ago."""
    spent: float = 0.0
    """Executor-minutes that more executors than wanted have cost since they were wanted."""
    wants: tuple[int, ...] = ()
    """Executors wanted in each of the last minutes of these, at most `_RECENTLY`."""
    tried: int = 0
    """The most executors that batches were measured on."""

    def after(self, minute: Minute) -> Self:
        """What is known with one minute more."""
        last = self.last
        follows = (
            last is not None
            and last.running
            and minute.state == "running"
            and last.epoch == minute.epoch
            and 0 < minute.at - last.at <= _PATIENCE * max(self.interval, _TICK)
        )
        known = self.__class__(*_VALUES(self))
        if not follows:
            known._interrupt()
        known._add(minute, last if follows else None)
        return known

    def _interrupt(self) -> None:
        self.forecast = self.forecast.without_past()
        self.evidence = self.evidence.interrupted()
        self.spent, self.wants = 0.0, ()

    def _add(self, minute: Minute, before: Past | None) -> None:
        batch = self.workload.batch_interval
        now = demand(minute, before, batch) if minute.state == "running" else None
        steady_since = self.steady_since if _is_certain(minute, before) else minute.at
        measured = now is not None
        now = self._at_least(minute, now, steady_since)
        self.last, self.now, self.steady_since = Past.of(minute), now, steady_since
        self.wanted = None
        if minute.shards:
            self.tasks = max(1, ceil(round(minute.shards * self.workload.tasks_per_shard, 6)))
            self.told = True
        if minute.delay is not None and minute.delay > _VERY_LATE * batch:
            self.late_at = minute.at
        if now is None:
            self._interrupt()
            return
        if measured:
            self._measure(minute, now)
        self.wanted = self._size()
        self._rent(minute, before)

    def _measure(self, minute: Minute, now: Demand) -> None:
        """Add a minute whose demand was measured."""
        batch = self.workload.batch_interval
        time = (minute.processing_ms or 0.0) / 1000
        steady = minute.at - self.steady_since >= _WHOLE * self.interval + max(0.0, time - batch)
        if steady and minute.registered and time > 0 and now.records > 0:
            self.tried = max(self.tried, minute.registered)
            self._try(time / batch, now, minute)
            if not self.told:
                self._add_evidence(time / batch, now.records, minute.registered)
            self._fit(time / batch, now.records, minute.registered)
        self.forecast = self.forecast.after(now, _SURE * now.slack / 60)

    def _at_least(self, minute: Minute, now: Demand | None, steady_since: int) -> Demand | None:
        """The demand of a minute with what a batch in progress says of it: how long it has taken
        says how many records it has at least. While none completes, it is as it was."""
        batch, model = self.workload.batch_interval, self.model
        if minute.overdue is None or model is None or minute.state != "running":
            return now
        if now is None and self.now is not None:
            now = self.now._replace(waiting=(minute.overdue - 1) * batch)
        since = minute.at - minute.overdue * batch
        if minute.overdue < _OVERDUE or not minute.registered or since < steady_since:
            return now
        w = self._tasks(model is self.waves).w(minute.registered)
        records = model.cost.records(w, minute.overdue)
        gathered = batch
        if minute.pending is None and minute.processing_ms is not None:
            gathered = max(batch, minute.processing_ms / 1000)
        rate = records / gathered
        if now is None:
            waiting = (minute.overdue - 1) * batch
            return Demand(rate, rate, records, waiting, slack(minute, batch))
        return now._replace(mean=max(now.mean, rate), peak=max(now.peak, rate))

    def _try(self, time: float, now: Demand, minute: Minute) -> None:
        """Add what this minute says of the executors that it ran on."""
        assert minute.registered
        failed = self.failed
        if failed is not None and not (
            0 <= minute.at - failed.at < _REMEMBERED
            # What was in vain is tried again once an hour, however much still waits.
            and (not failed.in_vain or minute.at - failed.since < _REMEMBERED)
        ):
            failed = None
        overhead = PRIOR_OVERHEAD if self.model is None else self.model.cost.overhead
        each = (time - overhead) / now.records
        # As if each batch had gathered for one interval.
        if overhead + each * now.mean * self.workload.batch_interval > _FAILED:
            executors = minute.registered
            first, at_first, since, in_vain = executors, each, minute.at, False
            if failed is not None and failed.first < executors:
                first, at_first, since = failed.first, failed.each, failed.since
                if executors >= failed.executors and each > _DEARER * failed.last_each:
                    at_first *= each / failed.last_each
                slow = _STILL_AS_SLOW if failed.in_vain else _AS_SLOW
                in_vain = executors >= 2 * first and each >= slow * at_first
            failed = Failed(first, at_first, executors, each, now.mean, minute.at, since, in_vain)
        elif failed is not None and minute.registered >= failed.executors:
            # Where these fail later, records have become dearer since.
            failed = failed._replace(last_each=each)
        self.failed = failed

    def _add_evidence(self, time: float, records: float, executors: int) -> None:
        places = executors * self.workload.slots - self.workload.pinned
        overhead = PRIOR_OVERHEAD if self.model is None else self.model.cost.overhead
        if places <= 0 or time <= overhead:
            return
        error = _PRIOR_ERROR if self.fluid is None else self.fluid.error
        self.evidence = self.evidence.after(places, (time - overhead) / records, error)
        if self.evidence.tasks != self.tasks:
            self.tasks, self.waves = self.evidence.tasks, None

    def _fit(self, time: float, records: float, executors: int) -> None:
        of = (time, records, executors)
        fluid = _fitted(self.fluid, self._tasks(waves=False), *of)
        waves = self.waves
        if self.tasks is not None:
            waves = _fitted(waves, self._tasks(waves=True), *of)
        if waves is not None and self.waves is None and self.fluid is not None:
            waves = waves._replace(minutes=self.fluid.minutes, error=self.fluid.error)
        if self.told and fluid is not None and waves is not None:
            here, other = (waves, fluid) if self.in_waves else (fluid, waves)
            if other.error < _MARGIN * here.error:
                self.in_waves = not self.in_waves
        self.fluid, self.waves = fluid, waves

    def _tasks(self, waves: bool) -> Tasks:
        tasks = self.tasks if waves or self.told else None
        # How many there are is only thought until places for twice as many have been tried.
        sure = self.told or (tasks is not None and self.evidence.most >= 2 * tasks)
        return Tasks(self.workload.slots, self.workload.pinned, tasks, waves, sure)

    @property
    def model(self) -> Model | None:
        """The model that is relied on; None: there is none yet."""
        return self.waves if self.in_waves and self.waves is not None else self.fluid

    def _size(self) -> Size | None:
        model = self.model
        if model is None or self.now is None or not self.forecast.pending:
            return None
        expected, curve = self.forecast.now
        rate = max(expected.rate, self.now.mean)
        price = self.price
        if self._is_wary:
            price *= _WARY
        need = Need(rate, self.now.waiting, self.now.slack, curve, price, self.least(rate))
        tasks = self._tasks(model is self.waves)
        return size(need, model.cost, tasks, self.workload.batch_interval)

    @property
    def most_spent(self) -> float:
        """Executor-minutes that too many executors may cost before they go: as a policy that
        decides more often is to be quicker, so many fewer."""
        return _RENT * self.interval / 60

    def in_fluid(self, rate: float) -> float:
        """Executors that would keep up with a rate if tasks ran in no waves; inf: none do."""
        assert self.model is not None
        tasks = self._tasks(self.model is self.waves)._replace(waves=False)
        return needed(rate, self.model.cost, tasks, self.workload.batch_interval)

    @property
    def smallest(self) -> int:
        """The fewest executors that have a place for a task."""
        return self._tasks(waves=False).smallest

    @property
    def is_settling(self) -> bool:
        """Whether executors came or went within the last minute."""
        return self.last is not None and self.steady_since == self.last.at

    @property
    def _is_wary(self) -> bool:
        """Whether a batch was very late a while ago."""
        if self.last is None or self.late_at is None:
            return False
        return 0 <= self.last.at - self.late_at < _WARY_FOR

    def least(self, rate: float) -> int:
        """The fewest executors that are worth a try: more than have failed; 1: none have."""
        failed = self.failed
        if failed is None or rate < _AS_MUCH * failed.rate:
            return 1
        more = failed.executors + max(1, round(_MORE * failed.executors))
        return more if more <= _MOST_TIMES * failed.first else 1

    def _rent(self, minute: Minute, before: Past | None) -> None:
        """Add what too many executors have cost."""
        idle = 0
        if self.wanted is not None and minute.requested is not None:
            idle = minute.requested - self.wanted.executors
        if self.wanted is None or idle <= 0:
            self.spent, self.wants = 0.0, ()
            return
        seconds = self.interval if before is None else minute.at - before.at
        self.spent += idle * seconds / 60
        self.wants = (*self.wants, self.wanted.executors)[-_RECENTLY:]


_VALUES = attrgetter(*(field.name for field in fields(Known)))
"""All that a `Known` has, in order."""


def _fitted(
    model: Model | None, tasks: Tasks, time: float, records: float, executors: int
) -> Model | None:
    w = tasks.w(executors)
    if w > 1e9:
        return model
    return Model.begun(time, records, w) if model is None else model.after(time, records, w)


def _is_certain(minute: Minute, before: Past | None) -> bool:
    """Whether all batches of a minute ran on the executors that it names."""
    return (
        before is not None
        and bool(minute.registered)
        and minute.registered == minute.requested == before.registered == before.requested
    )
