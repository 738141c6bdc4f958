r"""The limits in force: those that were set, and those of estimators. No Spark here.

After each batch the estimator of its query is fed, and says what the sources may take from then on.
The limit in force of a source is the smallest of that and of what somebody has set; it is always
stated whole.

    PUT /v1/rates --- set ----------------\
                                           smallest --- rates file --- sources that plan batches
    batches --- estimators --- share -----/        \--- ReceiverTracker --- receivers
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dagster_sparkscale.driver.batches.reports import DoneBatch, Input
from dagster_sparkscale.driver.live_limits import ESTIMATED, EVERY
from dagster_sparkscale.driver.wire import Batch, Limit

from .estimators import Estimator, estimator_of
from .measured import Estimate, MeasuredBatch
from .plan import EstimatorPlan
from .sharing import Want, share
from .source import Given, Source, is_receiver, receivers_first, set_rate, set_records

MOST_RECORDS = 1e18
"""The most records of a batch. A number above it is no limit."""
MOST_SOURCES = 200
"""Sources that are kept in mind; names are made up by programs. The one that is longest without a
batch is forgotten first."""

Measured = Callable[[int], MeasuredBatch]
"""Makes what an estimator is given of a batch that had so many records."""


@dataclass(frozen=True)
class SourceLimit:
    """The limit of a source, and whose it is."""

    rate: float | None = None
    """Records per second."""
    records: int | None = None
    """Records of a batch."""
    by: str = "nobody"
    """The origin of the limit, as `Limit.by`."""


class Limiter:
    """The limits of all sources of a driver. Safe for threads.

    One class, though long: what is set, what is estimated and what is stated are read and written
    under one lock, so that nobody states a limit that another has just replaced.

    Args:
        interval_ms: the declared batch interval, for sources of which no batch was seen yet.
    """

    def __init__(self, interval_ms: int, clock: Callable[[], float] = time.time) -> None:
        self._interval_ms, self._clock = interval_ms, clock
        self._lock = threading.Lock()
        self._plan: EstimatorPlan | None = None
        self._receivers_begin: float | None = None
        self._receivers_most: float | None = None
        self.receivers_free: float | None = None
        """Records per second that Spark's settings let a receiver take that nothing else limits;
        None: as many as it likes."""
        self.receivers_held: bool = False
        """Whether receivers begin with less than that, and have to be told."""
        self.cores: int | None = None
        """The cores of all registered executors; None: not known."""
        self.task_cpus = 1
        self._sources: dict[str, Source] = {}
        self._estimators: dict[str, tuple[int, float | None, Estimator]] = {}
        """The estimators by query, with its number of sources and the max_rate of each; with `pid`,
        by source."""
        self._given: Given = {}
        self._receivers_were_set = False
        """Whether a limit was ever set for receivers."""

    def begin(
        self,
        plan: EstimatorPlan | None,
        receivers_begin: float | None = None,
        receivers_most: float | None = None,
        receivers_free: float | None = None,
        receivers_held: bool = False,
    ) -> None:
        """What is declared. To be called before the program runs.

        Args:
            plan: None: nothing is estimated, and limits are those that are set.
            receivers_begin: records per second that Spark lets a receiver take until it is told
                something else, and `receivers_most` that it lets one take whatever it is told:
                spark.streaming.backpressure.initialRate and spark.streaming.receiver.maxRate.
            receivers_free, receivers_held: as the attributes of these names.
        """
        with self._lock:
            self._plan, self._receivers_most = plan, receivers_most
            self.receivers_free, self.receivers_held = receivers_free, receivers_held
            begin = [rate for rate in (receivers_begin, receivers_most) if rate is not None]
            self._receivers_begin = min(begin, default=None)

    # What sources are told.

    def content(self, given: Given) -> Given:
        """What the file with the live limits is to hold: of each source that looks there, and under
        `EVERY` of one that is not named in it.

        Args:
            given: what is set, by source and limit; it is in force from now on.
        """
        with self._lock:
            self._given = given
            self._receivers_were_set |= receivers_first(given) is not None
            named = {*given, *(self._plan.sources if self._plan else ()), *self._sources, EVERY}
            content = {}
            for name in sorted(named):
                if is_receiver(name) or ((at := self._sources.get(name)) and at.receiver):
                    continue
                limit = self._in_force(name)
                if name in self._sources:
                    self._sources[name].stated.tell(self._clock(), limit.rate)
                if entry := self._entry(name, limit):
                    content[name] = entry
            return content

    def _entry(self, name: str, limit: SourceLimit) -> dict[str, int | float]:
        own = {**self._set_for(name)}
        own.pop("maxRate", None)
        if limit.records is not None:
            if "maxRecordsPerTrigger" not in own and "maxRate" not in self._set_for(name):
                own[ESTIMATED] = True  # nobody has set one in the place of the source's own
            own["maxRecordsPerTrigger"] = limit.records
        return own

    def receivers(self, ids: Sequence[int], query: str) -> dict[int, float | None]:
        """Records per second that each receiver is to be told; None: no limit.

        Args:
            ids: of all receivers that there are.
            query: whose they are.
        """
        with self._lock:
            for stream in ids:
                self._source(f"receiver-{stream}", receiver=True).query = query
            return {stream: self._in_force(f"receiver-{stream}").rate for stream in ids}

    def noted(self, stream: int, rate: float | None) -> None:
        """Note the limit that a receiver has just got; None: it was lifted."""
        with self._lock:
            source = self._source(f"receiver-{stream}", receiver=True)
            source.limited = rate is not None
            free = self.receivers_free if rate is None else rate
            source.stated.tell(self._clock(), self._capped(free))

    @property
    def has_receivers_to_tell(self) -> bool:
        """Whether a limit of receivers is, or was, in force.

        Where Spark limits those that were told nothing, as they begin with what was set when the
        driver began, a limit that is not set any more has to be lifted from each that it starts
        anew, too.
        """
        with self._lock:
            return (
                self._plan is not None
                or (self._receivers_were_set and self._receivers_begin is not None)
                or any("maxRate" in limits for limits in self._given.values())
                or self.receivers_held
                or any(s.receiver and s.limited for s in self._sources.values())
            )

    def _capped(self, rate: float | None) -> float | None:
        return min(
            (each for each in (rate, self._receivers_most) if each is not None), default=None
        )

    # What batches tell.

    def limit_of(self, done: DoneBatch) -> float | None:
        """What `Batch.limit` says of a batch."""
        with self._lock:
            allowed = [self._allowed(each, done) for each in done.inputs]
        known = [each for each in allowed if each is not None]
        return sum(known) if known and len(known) == len(allowed) else None

    def _allowed(self, each: Input, done: DoneBatch) -> float | None:
        if not each.receiver:
            return each.limit
        source = self._source(each.source or "", receiver=True)
        rate = source.while_collected(done)
        return None if rate is None else rate * done.interval_ms / 1000

    def completed(self, done: DoneBatch) -> None:
        """Learn from a batch, with its limit, and whether it was cold.

        Raises:
            ValueError: an estimator can't take these numbers.
        """
        done = replace(done, inputs=tuple(map(_as_limited, done.inputs)))
        with self._lock:
            for each in done.inputs:
                if each.source is not None:
                    self._source(each.source, each.receiver).took(each, done)
            if self._plan is not None and done.inputs:
                measured = partial(_measured, done, self._batch_cores(done.batch))
                each_alone = self._plan.estimator == "pid"
                estimate = self._estimate_each if each_alone else self._estimate_all
                estimate(self._plan, done, measured)

    def _batch_cores(self, batch: Batch) -> int | None:
        """Cores that batches have: each receiver takes those of a task. 1 where they take all."""
        if not self.cores:
            return self.cores
        receivers = sum(s.receiver and s.query == batch.query for s in self._sources.values())
        return max(1, self.cores - receivers * self.task_cpus)

    def _limited(self, plan: EstimatorPlan, inputs: Sequence[Input]) -> list[Source]:
        names = {each.source for each in inputs if each.source and plan.limits(each.source)}
        return [self._sources[name] for name in sorted(names)]

    def _estimate_each(self, plan: EstimatorPlan, done: DoneBatch, measured: Measured) -> None:
        """Feed an estimator for each source with its records alone, as Spark does."""
        for source in self._limited(plan, done.inputs):
            records = sum(each.records for each in done.inputs if each.source == source.name)
            estimator = self._estimator(f"source {source.name}", 1, plan)
            found = estimator.completed(measured(records))
            if found is not None:
                source.estimated(found.rate, done.batch.completed_at, found.reason)

    def _estimate_all(self, plan: EstimatorPlan, done: DoneBatch, measured: Measured) -> None:
        """One estimator for all sources of the query, whose total they share."""
        batch, inputs = done.batch, done.inputs
        limited = self._limited(plan, inputs)
        if not limited:
            return
        names = {source.name for source in limited}
        # What it says is of all records, and max_rate of those that are limited alone.
        alone = all(each.source in names for each in inputs)
        bounds = plan if alone else replace(plan, max_rate=None)
        estimator = self._estimator(f"query {batch.query}", len(limited), bounds)
        seen = measured(sum(each.records for each in inputs))
        found = estimator.completed(seen)
        if found is None:
            return
        others = sum(each.records for each in inputs if each.source not in names)
        total = found.rate - 1000 * others / seen.interval_ms
        wants = {s.name: Want(s.recent or 0.0, s.wants_more) for s in limited}
        shares = share(max(total, 0.0), wants, plan.min_rate, plan.max_rate)
        for source in limited:
            why = _why(found, source.name, shares, others)
            source.estimated(plan.bounded(shares[source.name]), batch.completed_at, why)

    def _estimator(self, key: str, sources: int, plan: EstimatorPlan) -> Estimator:
        known = self._estimators.pop(key, None)
        if known is not None and known[:2] == (sources, plan.max_rate):
            self._estimators[key] = known  # the latest is last
            return known[2]
        made = estimator_of(plan.of_several(sources))
        if len(self._estimators) >= MOST_SOURCES:
            del self._estimators[next(iter(self._estimators))]
        self._estimators[key] = sources, plan.max_rate, made
        return made

    def _source(self, name: str, receiver: bool = False) -> Source:
        source = self._sources.pop(name, None)
        if source is None:
            first = self._capped(self._receivers_begin) if receiver else self._in_force(name).rate
            source = Source(name, receiver, self._interval_ms, first)
            if len(self._sources) >= MOST_SOURCES:
                del self._sources[next(iter(self._sources))]
        self._sources[name] = source  # the latest is last
        return source

    # What is in force.

    def _set_for(self, name: str) -> Mapping[str, int | float]:
        return self._given.get(name, self._given.get(EVERY, {}))

    def _in_force(self, name: str) -> SourceLimit:
        source = self._sources.get(name)
        receiver = source.receiver if source else is_receiver(name)
        interval_s = (source.interval_ms if source else self._interval_ms) / 1000
        limits = self._set_for(name)
        found: list[tuple[float, str]] = []
        if (rate := set_rate(limits, interval_s, receiver)) is not None:
            found.append((rate, "set"))
        if self._plan is not None and (
            not self._plan.sources if name == EVERY else self._plan.limits(name)
        ):
            if source is not None and source.estimate is not None:
                most = self._plan.max_rate
                at_most = most is not None and source.estimate >= most
                found.append((source.estimate, "max_rate" if at_most else "estimator"))
            elif self._plan.first_rate is not None:
                found.append((self._plan.first_rate, "start"))
        if not found:
            return SourceLimit()
        rate, by = min(found, key=lambda each: each[0])
        if receiver:  # Spark tells one a whole number; 0 would be none at all
            return SourceLimit(max(1, int(min(rate, MOST_RECORDS))), by=by)
        whole = set_records(limits) if by == "set" else None
        # A limit of records that was set stays as it was said.
        exact = whole is not None and whole / interval_s == rate
        records = whole if exact else max(1, int(min(rate * interval_s + 1e-6, MOST_RECORDS)))
        return SourceLimit(rate, records, by)

    def limits(self) -> tuple[Limit, ...]:
        """What limits each source that is known, or that something is set or declared for."""
        with self._lock:
            declared = self._plan.sources if self._plan else ()
            names = {*self._sources, *self._given, *declared} - {EVERY}
            return tuple(self._limit(name) for name in sorted(names))

    def _limit(self, name: str) -> Limit:
        force, plan = self._in_force(name), self._plan
        estimator = plan.estimator if plan is not None and plan.limits(name) else None
        limit = Limit(name, rate=force.rate, by=force.by, estimator=estimator)
        if (source := self._sources.get(name)) is None:
            return limit
        return replace(
            limit,
            query=source.query,
            taken=source.taken if force.rate is not None else None,
            estimate=source.estimate,
            estimated_at=source.estimated_at,
            reason=source.reason,
            records=source.records,
            processing_ms=source.processing_ms,
            scheduling_ms=source.scheduling_ms,
        )


def _as_limited(each: Input) -> Input:
    """The batch with no more records than the source says that it kept to.

    Spark counts them each time that they are read: once for every action of a `foreachBatch` that
    does not persist its batch, and for each side of a self-join. Limits are of what a source gives.
    """
    if each.limit is None or each.records <= each.limit:
        return each
    return replace(each, records=each.limit)


def _measured(done: DoneBatch, cores: int | None, records: int) -> MeasuredBatch:
    batch = done.batch
    return MeasuredBatch(
        completed_at=batch.completed_at,
        records=records,
        processing_ms=batch.processing_ms,
        interval_ms=done.interval_ms,
        scheduling_ms=batch.scheduling_ms if done.queues else None,
        cores=cores,
        limit=batch.limit,
        failed=batch.failed,
        cold=batch.cold,
    )


def _why(found: Estimate, name: str, shares: Mapping[str, float], others: int) -> str:
    said = found.reason
    if others:
        said += f"; {others:,} records of its last batch are of sources without live limits"
    if len(shares) > 1:
        said += f"; {shares[name]:,.0f} records/s of it are this source's share"
    return said
