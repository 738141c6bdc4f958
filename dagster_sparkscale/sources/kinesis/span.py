"""How much of a stream's time the next batch may cover. Pure.

A span of the stream's own time bounds a batch before anything of it has been read: a shard takes
in 1000 records and 1 MiB a second at most. Limits in records or bytes are turned into a span by
how dense the records lie; a limit on the batch's duration by how long the batches so far took for
a second of the stream, which is what the work on a record costs, whatever it is.
"""

from dataclasses import dataclass, replace

from .options import DEFAULT_SPAN_MS, Limits

WRITTEN_RECORDS = 1000.0
WRITTEN_BYTES = 1024.0 * 1024.0
"""What a shard takes in a second at most, by the service."""
SLACK = 2.0
"""Without a limit of the user's a batch covers this many times the stream's time between two
batches, or it would never catch up."""
GROWTH = 2.0
"""How much longer a batch's span may become from one to the next."""
TRIED = 1.25
"""How much longer it becomes while batches take no longer than they should: their time may be
the trigger's interval, and say nothing of the work."""
NEAR = 1.1
"""Batches longer than they should be by less than this are as long as they should be."""
SHARE = 10
"""A batch covers at least this part of the duration aimed at."""
TELLING = 0.1
"""Two batches that differ by this share in what they covered tell what the records took."""
FIXED = 1.5
"""A batch may take this many times what it takes whatever is in it, even if that is longer than
it should: else nearly all the time would go into that, and the stream fall behind."""


@dataclass(frozen=True, slots=True)
class Density:
    """How dense the records of a shard lie, by what was read of it last."""

    records_per_s: float | None = None
    bytes_per_record: float | None = None


def span_ms(limits: Limits, shards: int, density: Density, cycle_ms: float | None) -> float | None:
    """What the next batch may cover of one shard, milliseconds of the stream; None for no limit.

    Args:
        limits: of the whole batch; each of `shards` shards has an equal share.
        cycle_ms: how long it was between the last two batches.
    """
    bounds: list[float] = []
    if limits.span_ms is not None:
        bounds.append(limits.span_ms)
    if limits.records is not None:
        rate = min(WRITTEN_RECORDS, density.records_per_s or WRITTEN_RECORDS)
        bounds.append(limits.records / shards / rate * 1000)
    if limits.bytes is not None:
        rate = WRITTEN_BYTES
        if density.records_per_s and density.bytes_per_record:
            rate = min(rate, density.records_per_s * density.bytes_per_record)
        bounds.append(limits.bytes / shards / rate * 1000)
    if not bounds and limits.duration_ms is None:
        bounds.append(max(DEFAULT_SPAN_MS, SLACK * (cycle_ms or 0.0)))
    return min(bounds) if bounds else None


@dataclass(frozen=True, slots=True)
class Governor:
    """Finds the span that makes a batch take `duration_ms`.

    What it goes by is the time from the planning of one batch to that of the next: the whole of
    a batch, sink and all. Part of it is not the records' work: a fixed cost, or a trigger's
    interval that is longer than the batch. That part is known by batches that covered less and
    took no less.
    """

    duration_ms: float
    span_ms: float
    """What the last batch was allowed to cover."""
    fixed_ms: float = 0.0
    """What a batch takes whatever is in it, as far as that is known."""
    other: tuple[float, float] | None = None
    """What an earlier batch covered, and how long it took: to compare with."""

    @staticmethod
    def start(duration_ms: float) -> "Governor":
        """The first batch covers what a stream that keeps up would."""
        return Governor(duration_ms, duration_ms)

    def after(self, cycle_ms: float, covered_ms: float) -> "Governor":
        """The governor for the next batch.

        Args:
            cycle_ms: from the planning of the last batch to now.
            covered_ms: what the last batch did cover, of the shard it covered most of.
        """
        if covered_ms <= 0:
            return self
        # More than was allowed is a silent stretch, which is no work.
        covered_ms, cycle_ms = min(covered_ms, self.span_ms), max(cycle_ms, 1.0)
        fixed_ms, other = self._compared(cycle_ms, covered_ms)
        aim_ms = max(self.duration_ms, FIXED * fixed_ms)
        wanted = covered_ms * aim_ms / cycle_ms
        if cycle_ms <= aim_ms * NEAR:
            span_ms = min(max(self.span_ms, wanted, covered_ms * TRIED), self.span_ms * GROWTH)
        else:
            # Half way only when it gets shorter: one slow batch is not the rule.
            span_ms = min(self.span_ms, (wanted + self.span_ms) / 2)
        return replace(
            self, span_ms=max(self.duration_ms / SHARE, span_ms), fixed_ms=fixed_ms, other=other
        )

    def _compared(self, cycle_ms: float, covered_ms: float) -> tuple[float, tuple[float, float]]:
        """What a batch takes whatever is in it, and the batch to compare the next with."""
        this, known_ms = (covered_ms, cycle_ms), min(self.fixed_ms, cycle_ms)
        if self.other is None:
            return known_ms, this
        covered_before, cycle_before = self.other
        more = covered_ms - covered_before
        if abs(more) <= TELLING * max(covered_ms, covered_before):
            return known_ms, self.other
        slope = min(max(0.0, (cycle_ms - cycle_before) / more), cycle_ms / covered_ms)
        return (known_ms + cycle_ms - slope * covered_ms) / 2, this
