"""Plans a batch: for each shard, up to which record it is to be read.

Ends are fixed before anything is read, as sequence numbers, so that a batch that is repeated has
the same records. Where an end should lie is found by time: one record is looked at of those that
arrived at the moment up to which the batch may go, and the batch ends before it. The few records
that planning reads besides travel with the plan, so that nothing is read twice.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from .client import KinesisError
from .options import Limits, Start
from .positions import END, Kind, Offset, Position
from .ranges import Range, joined
from .retention import Retention, found
from .service import THREADS, Service, arrived_ms
from .shard_plan import Bounds, Memory, ShardPlanner, Step
from .shards import Shard, ancestors, forgettable, missing, roots, startable
from .span import Governor, span_ms

CLOCK_MS = 1500
"""How far the service's clock may be ahead of the time known of it: a second, and the way there."""
SETTLE_MS = 300
"""How long before the present a batch ends at the latest: a record to end at is more often there a
moment later."""
CARRIED_BYTES = 8 * 1024 * 1024
"""Bytes of records that travel with a plan, all shards together."""
CARRIED_BYTES_A_SHARD = 256 * 1024


def wait_until_past(
    service: Service, moment_ms: float, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait until `moment_ms` is certainly past, if the service's clock may have passed it. Before
    that it is the future for a plan, and has nothing."""
    ahead_ms = moment_ms - service.now_ms()
    if 0 < ahead_ms <= CLOCK_MS:
        sleep(ahead_ms / 1000)


@dataclass(frozen=True)
class BatchPlan:
    end: Offset
    ranges: tuple[Range, ...]
    behind_ms: int
    """How far the shard furthest behind is behind its tip after this batch."""
    shards: int
    """The number of shards that are read."""
    covered_ms: float = 0.0
    """The stream's time that the batch covers, in the shard where that is most."""


class Planner:
    """Plans one batch after the other. For one thread; asks about many shards at a time.

    One class, though long: a batch is planned from what the one before has left of each shard.

    Args:
        fail_on_data_loss: whether data that was trimmed before it was read is an error.
        sleep: waits for seconds.
        ahead: whether batches are planned before others are done; `took` then reports those.
    """

    def __init__(
        self,
        service: Service,
        fail_on_data_loss: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        ahead: bool = False,
    ) -> None:
        self._service = service
        self._clock = clock
        self._sleep = sleep
        self._retention = Retention(service, fail_on_data_loss, clock)
        self._memory: dict[str, Memory] = {}
        self._governor: Governor | None = None
        self._planned_at: float | None = None
        self._covered_ms = 0.0
        self._ahead = ahead
        self._took: tuple[float, float] | None = None
        self._until_ms: int | None = None
        self._lost_again = 0

    def begin(self, start: Start) -> Offset:
        """The offset at which a new query begins.

        Raises:
            DataLost: the moment or the record is older than what the stream retains, and
                failOnDataLoss is set.
            KinesisError: `start` names shards that the stream lacks, leaves some out, or names both
                a shard and one that it descends from.
        """
        listed, now = self._service.shards(), self._service.now_ms()
        stream = self._service.connection.stream
        if start.shards:
            _check_named(start.shards, listed)
            return self._named(start.shards, listed, now)
        if start.latest:
            # A moment, and not the tip: it can be kept, and found again after a crash.
            here = Position(Kind.TIME, time_ms=now)
            tips = {shard.id: here for shard in listed if not shard.closed}
            return Offset(stream, tips, from_ms=now)
        position, lost = start.everywhere or Position(Kind.TRIM), 0
        if position.kind is Kind.TIME and self._retention.lost("", position, now):
            self._retention.report("startingPosition is older than what the stream retains")
            position, lost = Position(Kind.TRIM), 1
        if position.kind is Kind.TRIM:
            oldest = Position(Kind.TRIM, time_ms=now)
            return Offset(stream, {shard: oldest for shard in roots(listed)}, lost=lost)
        return Offset(
            stream, {shard: position for shard in roots(listed)}, from_ms=position.time_ms
        )

    def _named(self, begins: Mapping[str, Position], listed: Sequence[Shard], now: int) -> Offset:
        first = {shard.id: shard.first for shard in listed}

        def begin(shard: str) -> tuple[Position, int]:
            position = begins[shard]
            if position.sequence is None:
                return replace(position, time_ms=now), 0
            if (record := found(self._service, shard, position.sequence)) is not None:
                return replace(position, time_ms=arrived_ms(record)), 0
            if position.sequence == first[shard]:
                return Position(Kind.TRIM, time_ms=now), 0
            self._retention.report(
                f"startingPosition: {shard} has no record {position.sequence} any more, and may "
                "have had others behind it"
            )
            return Position(Kind.TRIM, time_ms=now), 1

        with ThreadPoolExecutor(min(THREADS, len(begins))) as threads:
            begun = dict(zip(begins, threads.map(begin, begins), strict=True))
        return Offset(
            self._service.connection.stream,
            {shard: position for shard, (position, _) in begun.items()},
            lost=sum(lost for _, lost in begun.values()),
        )

    def stop_at(self, moment_ms: int | None = None) -> None:
        """Plan nothing that arrived after `moment_ms`. Without it, plan all that has arrived by
        now, and perhaps a little more: the service's clock is known to the second only."""
        if moment_ms is None:
            moment_ms = self._service.now_ms() + CLOCK_MS
        self._until_ms = moment_ms

    def took(self, duration_ms: float, covered_ms: float) -> None:
        """Note how long a batch took and what it covered (see `BatchPlan`). Only callers that plan
        ahead do so; for others a batch is done when the next one is planned."""
        self._took = duration_ms, covered_ms

    def plan(self, start: Offset, limits: Limits | None) -> BatchPlan:
        """Plan the batch that begins at `start`; its end is `start` if there is nothing to read.

        Args:
            limits: None for all there is.

        Raises:
            DataLost: data is gone before it was read, and failOnDataLoss is set.
            KinesisError: the service does not answer as it should.
        """
        if self._until_ms is not None:
            # There is no next batch for what arrived in the second that is not known to be past.
            begins = [each.time_ms or 0 for each in start.shards.values() if each.kind is Kind.TIME]
            wait_until_past(self._service, max(begins, default=0), self._sleep)
        listed, now = self._service.shards(), self._service.now_ms()
        positions, lost = self._without_lost(start, listed, now)
        positions |= {shard: start.first(now) for shard in startable(listed, positions)}
        active = [shard for shard, each in positions.items() if each.kind is not Kind.END]
        steps = self._steps(active, positions, listed, limits, now)
        self._planned_at = self._clock()
        self._covered_ms = max((_covered_ms(step) for step in steps.values()), default=0.0)
        self._memory = {shard: self._memory[shard] for shard in active}
        ends = positions | {shard: step.position for shard, step in steps.items()}
        for shard in forgettable(listed, ends):
            del ends[shard]
        lost, self._lost_again = lost + self._lost_again, 0
        return BatchPlan(
            end=replace(start, shards=ends, lost=start.lost + lost),
            ranges=tuple(
                replace(step.range, kept_ms=self.kept_ms())
                for step in steps.values()
                if step.range is not None
            ),
            behind_ms=max((step.behind_ms for step in steps.values()), default=0),
            shards=len(active),
            covered_ms=self._covered_ms,
        )

    def everything(self, start: Offset) -> BatchPlan:
        """Plan one batch of all records up to `stop_at`. It includes children of shards that end in
        it, after their parents.

        Raises:
            DataLost, KinesisError: as `plan`.
        """
        plan = self.plan(start, None)
        while (more := self.plan(plan.end, None)).ranges:
            plan = replace(more, ranges=tuple(joined(plan.ranges + more.ranges)))
        return plan

    def check(self, start: Offset) -> None:
        """Check before a batch is repeated that the data after `start` is still there. The next
        plan counts what is lost.

        Raises:
            DataLost: data is gone, and failOnDataLoss is set.
        """
        _, lost = self._without_lost(start, self._service.shards(), self._service.now_ms())
        self._lost_again += lost

    def kept_ms(self) -> int:
        """How long the stream keeps a record."""
        return self._retention.kept_ms()

    def _without_lost(
        self, start: Offset, listed: Sequence[Shard], now: int
    ) -> tuple[dict[str, Position], int]:
        """Positions from which reading can go on, and how many had lost data."""
        positions = dict(start.shards)
        lost = 0
        for shard in missing(listed, positions):
            self._retention.report(f"{shard} of {start.stream} is gone before it was read")
            positions[shard] = END
            lost += 1
        for shard, position in positions.items():
            if self._retention.lost(shard, position, now):
                self._retention.report(
                    f"data of {shard} of {start.stream} has been trimmed before it was read"
                )
                positions[shard] = Position(Kind.TRIM, time_ms=now)
                lost += 1
        return positions, lost

    def _steps(
        self,
        active: Sequence[str],
        positions: Mapping[str, Position],
        listed: Sequence[Shard],
        limits: Limits | None,
        now: int,
    ) -> dict[str, Step]:
        if not active:
            return {}
        cycle_ms = None
        if self._planned_at is not None:
            cycle_ms = (self._clock() - self._planned_at) * 1000
        governed = self._governed_ms(limits, cycle_ms)
        refresh_ms = self._retention.refresh_ms()
        closed = {shard.id for shard in listed if shard.closed}

        def step(shard: str) -> Step:
            memory = self._memory.setdefault(shard, Memory())
            spans = [governed]
            records = size = None
            if limits is not None:
                spans.append(span_ms(limits, len(active), memory.density, cycle_ms))
                records = limits.records and limits.records // len(active)
                size = limits.bytes and limits.bytes // len(active)
            bounds = Bounds(
                until_ms=now - SETTLE_MS if self._until_ms is None else self._until_ms,
                stop=self._until_ms is not None,
                span_ms=min((span for span in spans if span is not None), default=None),
                records=records,
                bytes=size,
                governed_ms=governed,
                carried_bytes=min(CARRIED_BYTES_A_SHARD, CARRIED_BYTES // len(active)),
                refresh_ms=refresh_ms,
            )
            is_closed, start = shard in closed, positions[shard]
            return ShardPlanner(
                self._service, shard, is_closed, start, memory, bounds, now, self._clock
            ).step()

        with ThreadPoolExecutor(min(THREADS, len(active))) as threads:
            return dict(zip(active, threads.map(step, active), strict=True))

    def _governed_ms(self, limits: Limits | None, cycle_ms: float | None) -> float | None:
        took, self._took = self._took, None
        if not self._ahead and cycle_ms is not None:
            took = cycle_ms, self._covered_ms
        if limits is None or limits.duration_ms is None:
            self._governor = None
            return None
        if self._governor is None or self._governor.duration_ms != limits.duration_ms:
            self._governor = Governor.start(limits.duration_ms)
        elif took is not None:
            self._governor = self._governor.after(*took)
        return self._governor.span_ms


def _covered_ms(step: Step) -> float:
    """The stream's time that a step covers; 0 where that is not known."""
    if step.range is None or not step.range.head or step.position.time_ms is None:
        return 0.0
    first: float = step.range.head[0]["ApproximateArrivalTimestamp"] * 1000
    return max(0.0, step.position.time_ms - first)


def _check_named(named: Mapping[str, Position], listed: Sequence[Shard]) -> None:
    ids = {shard.id for shard in listed}
    if unknown := sorted(set(named) - ids):
        raise KinesisError(
            f"startingPosition names {', '.join(unknown)}, which the stream has not: "
            f"it has {', '.join(sorted(ids))}"
        )
    behind = ancestors(named, listed)
    for shard in sorted(named):
        if above := sorted(ancestors([shard], listed) & set(named)):
            raise KinesisError(
                f"startingPosition names {shard} and {', '.join(above)}, which it descends from: "
                f"what lies between them would be skipped. Name {shard} alone, to begin there and "
                f"pass over what it descends from; or leave {shard} out, and it is read after "
                f"{', '.join(above)}"
            )
    below = {shard.id for shard in listed if ancestors([shard.id], listed) & set(named)}
    if left_out := sorted(ids - set(named) - behind - below):
        raise KinesisError(
            f"startingPosition does not say where to begin in {', '.join(left_out)}: name every "
            "shard but those that descend from a named one, or that a named one descends from"
        )
