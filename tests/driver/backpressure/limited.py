"""A stream whose sources a limiter limits, and what they gave to a batch."""

from dataclasses import replace

from dagster_sparkscale.driver.backpressure.limiter import Limiter
from dagster_sparkscale.driver.batches.reports import DoneBatch, Input
from dagster_sparkscale.driver.wire import Batch, Limit

RECORDS, RATE, SPAN = "maxRecordsPerTrigger", "maxRate", "maxSpanPerTrigger"
BEGAN = 1_000_000.0
"""When each of these drivers began, seconds since the epoch."""


class Stream:
    """A stream whose sources take all that they may, and how long its batches take."""

    def __init__(self, plan=None, given=None, interval_ms=1000, declared_ms=1000, **begin):
        self.now = BEGAN
        self.limiter = Limiter(declared_ms, clock=lambda: self.now)
        self.limiter.begin(plan, **begin)
        self.interval_ms, self.given, self.batches = interval_ms, given or {}, 0
        self.file = self.limiter.content(self.given)

    def set(self, **given):
        self.given = given
        self.file = self.limiter.content(given)

    def batch(self, *inputs, ms=500, queues=False, query="q", **fields):
        """A batch is planned, done and told of; the file is written anew."""
        self.now += self.interval_ms / 1000
        self.batches += 1
        batch = Batch(
            query,
            completed_at=self.now,
            processing_ms=ms,
            scheduling_ms=0,
            records=sum(each.records for each in inputs),
            batch_id=round(self.now * 1000) if queues else self.batches,
            **fields,
        )
        done = DoneBatch(batch, self.interval_ms, inputs, queues)
        batch = replace(batch, limit=self.limiter.limit_of(done))
        self.limiter.completed(replace(done, batch=batch))
        self.file = self.limiter.content(self.given)
        return batch

    def limit(self, source="clicks") -> Limit:
        return next(each for each in self.limiter.limits() if each.source == source)


def clicks(records, limit=None, tells=True, source="clicks"):
    return Input(source, records, limit, tells)


def received(records, stream=0):
    return Input(f"receiver-{stream}", records, receiver=True)
