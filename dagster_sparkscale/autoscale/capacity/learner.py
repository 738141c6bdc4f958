"""What the capacity policy has learned of one stream, minute by minute. Pure."""

from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from typing import Self

from dagster_sparkscale.autoscale.capacity.demand import Demand, demand
from dagster_sparkscale.autoscale.capacity.forecast import Came, Forecast
from dagster_sparkscale.autoscale.capacity.model import PRIOR_OVERHEAD, Model
from dagster_sparkscale.autoscale.capacity.sizing import Need, Size, Tasks, size
from dagster_sparkscale.autoscale.capacity.waves import Evidence
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.observe.minutes import Minute

LEAST_MINUTES = 2
"""Minutes with certain executors from which on a model is relied on."""
MOST_ERROR = 0.35
"""Relative error of its predictions from which on it is not."""
_PATIENCE = 2.5
"""Intervals from which on minutes are missing between two."""
_OVERDUE = 1.5
"""Batch intervals from which on a batch in progress says how many records it has at least."""
RENT = 2.0
"""Executor-minutes that too many executors may cost before they go."""
_RECENTLY = 3
"""Minutes of which the most executors that were wanted stay."""
_NOISE_GAIN = 0.05
"""Share that a minute has of what is usual of processing times."""
_LEAST_NOISE = 0.02
_MARGIN = 0.8
"""How much better the other w has to predict before it is used."""


@dataclass(frozen=True, slots=True)
class Past:
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


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a stream by its minutes."""

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
    spent: float = 0.0
    """Executor-minutes that more executors than wanted have cost since they were wanted."""
    wants: tuple[int, ...] = ()
    """Executors wanted in each of the last minutes of these, at most `_RECENTLY`."""
    noise: float = 0.1
    """Relative standard deviation of processing times."""

    def after(self, minute: Minute) -> Self:
        """What is known with one minute more."""
        last = self.last
        follows = (
            last is not None
            and last.running
            and minute.state == "running"
            and last.epoch == minute.epoch
            and 0 < minute.at - last.at <= _PATIENCE * self.interval
        )
        known = self if follows else self._interrupted()
        return known._with(minute, last if follows else None)

    def _interrupted(self) -> Self:
        return replace(
            self,
            forecast=self.forecast.without_past(),
            evidence=self.evidence.interrupted(),
            spent=0.0,
            wants=(),
        )

    def _with(self, minute: Minute, before: Past | None) -> Self:
        batch = self.workload.batch_interval
        now = demand(minute, before, batch) if minute.state == "running" else None
        steady_since = self.steady_since if _is_certain(minute, before) else minute.at
        now, measured = self._at_least(minute, now, steady_since), now is not None
        tasks, told = self.tasks, self.told
        if minute.shards:
            told = True
            tasks = max(1, ceil(round(minute.shards * self.workload.tasks_per_shard, 6)))
        if now is None:
            interrupted = self._interrupted()
            return replace(
                interrupted,
                last=Past.of(minute),
                now=None,
                wanted=None,
                tasks=tasks,
                steady_since=steady_since,
            )
        known = replace(
            self, last=Past.of(minute), now=now, tasks=tasks, told=told, steady_since=steady_since
        )
        if not measured:
            known = replace(known, wanted=known._size())
            return known._rented(minute, before)
        if (
            minute.processing_ms
            and now.records > 0
            and minute.at - steady_since
            >= 0.9 * self.interval + max(0.0, minute.processing_ms / 1000 - batch)
        ):
            assert minute.registered is not None
            known = known._learned(
                minute.processing_ms / 1000 / batch, now.records, minute.registered
            )
        known = replace(known, noise=known._noise(minute, now))
        known = replace(known, forecast=self.forecast.after(now, known._came(minute, now)))
        wanted = known._size()
        known = replace(known, wanted=wanted)
        return known._rented(minute, before)

    def _at_least(self, minute: Minute, now: Demand | None, steady_since: int) -> Demand | None:
        """The demand of a minute with what a batch in progress says of it: how long it has taken
        says how many records it has at least. While none completes, it is as it was."""
        batch, model = self.workload.batch_interval, self.model
        if minute.overdue is None or model is None or minute.state != "running":
            return now
        if now is None and self.now is not None:
            now = replace(self.now, waiting=(minute.overdue - 1) * batch)
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
            return Demand(rate, rate, records, (minute.overdue - 1) * batch)
        return replace(now, mean=max(now.mean, rate), peak=max(now.peak, rate))

    def _learned(self, time: float, records: float, executors: int) -> Self:
        known = self if self.told else self._with_evidence(time, records, executors)
        return known._fitted(time, records, executors)

    def _with_evidence(self, time: float, records: float, executors: int) -> Self:
        places = executors * self.workload.slots - self.workload.pinned
        overhead = PRIOR_OVERHEAD if self.model is None else self.model.cost.overhead
        if places <= 0 or time <= overhead:
            return self
        evidence = self.evidence.after(places, (time - overhead) / records)
        tasks = evidence.tasks
        if tasks == self.tasks:
            return replace(self, evidence=evidence)
        return replace(self, evidence=evidence, tasks=tasks, waves=None, in_waves=True)

    def _fitted(self, time: float, records: float, executors: int) -> Self:
        found = {}
        for name, model, tasks in (
            ("fluid", self.fluid, self._tasks(waves=False)),
            ("waves", self.waves, self._tasks(waves=True)),
        ):
            w = tasks.w(executors)
            if (name == "waves" and self.tasks is None) or w > 1e9:
                continue
            found[name] = (
                Model.begun(time, records, w) if model is None else model.after(time, records, w)
            )
        fluid, waves = found.get("fluid", self.fluid), found.get("waves", self.waves)
        in_waves = self.in_waves
        if fluid is not None and waves is not None:
            here, other = (waves, fluid) if in_waves else (fluid, waves)
            if other.error < _MARGIN * here.error:
                in_waves = not in_waves
        return replace(self, fluid=fluid, waves=waves, in_waves=in_waves)

    def _tasks(self, waves: bool) -> Tasks:
        return Tasks(self.workload.slots, self.workload.pinned, self.tasks, waves)

    @property
    def model(self) -> Model | None:
        """The model that is relied on; None: there is none yet."""
        return self.waves if self.in_waves and self.waves is not None else self.fluid

    def _came(self, minute: Minute, now: Demand) -> Came:
        """What came, and the noise that processing times have."""
        return Came(
            now.mean, now.peak, 1 / max(1, minute.completed or 0), max(_LEAST_NOISE, self.noise)
        )

    def _noise(self, minute: Minute, now: Demand) -> float:
        """The noise of processing times with one minute more: how much longer the longest batch
        took than its records alone make it."""
        batch, model = self.workload.batch_interval, self.model
        completed = minute.completed or 0
        if (
            model is None
            or minute.delay is None
            or not minute.processing_ms
            or completed < 2
            or now.mean <= 0
        ):
            return self.noise
        overhead = model.cost.overhead
        usual = minute.processing_ms / 1000 / batch - overhead
        longest = minute.delay / batch - 1 - overhead
        if not 0.01 < usual < longest <= 1 - overhead:
            return self.noise
        # Of n batches the largest lies so many standard deviations above the mean, about.
        times = sqrt(2 * log(completed)) * 0.67
        found = max(0.0, longest / usual * now.mean / now.peak - 1) / times
        return self.noise + _NOISE_GAIN * (found - self.noise)

    def _size(self) -> Size | None:
        model = self.model
        if model is None or self.now is None:
            return None
        expected, curve = self.forecast.now
        need = Need(max(expected.rate, self.now.mean), self.now.waiting, curve, self.price)
        return size(
            need, model.cost, self._tasks(model is self.waves), self.workload.batch_interval
        )

    def _rented(self, minute: Minute, before: Past | None) -> Self:
        """What too many executors have cost."""
        if self.wanted is None or minute.requested is None:
            return replace(self, spent=0.0, wants=())
        wanted = self.wanted.executors
        idle = minute.requested - wanted
        if idle <= 0:
            return replace(self, spent=0.0, wants=())
        seconds = self.interval if before is None else minute.at - before.at
        return replace(
            self, spent=self.spent + idle * seconds / 60, wants=(*self.wants, wanted)[-_RECENTLY:]
        )


def _is_certain(minute: Minute, before: Past | None) -> bool:
    """Whether all batches of a minute ran on the executors that it names."""
    return (
        before is not None
        and bool(minute.registered)
        and minute.registered == minute.requested == before.registered == before.requested
    )
