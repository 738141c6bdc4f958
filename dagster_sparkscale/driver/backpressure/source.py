"""What is known of one source that takes live limits. Pure."""

import re
from collections import deque
from collections.abc import Mapping

from dagster_sparkscale.driver.batches.reports import DoneBatch, Input
from dagster_sparkscale.driver.live_limits import EVERY
from dagster_sparkscale.driver.settings import RECEIVER

from .timeline import Timeline

Given = dict[str, dict[str, int | float]]
"""Limits by source and name, as `PUT /v1/rates` has them."""
FULL = 0.95
"""Share of its limit from which on a source counts as having taken all that it might."""
RECENTLY = 0.5
"""Weight of the last batch in what a source has taken of late."""
JUDGED = 3
"""Batches by which it is told whether a receiver keeps to its limit. Blocks that come late fall
into the next one."""
MORE = 1.1
"""What a receiver may bring, as a share of its limit."""
BURST_S = 1.0
"""Seconds whose records a receiver may make up for, if it had nothing to do before: so Guava's
`RateLimiter` has it, which Spark's receivers use."""
LATE_S = 0.5
"""Seconds that a record may wait in its block (spark.streaming.blockInterval, 200 ms) and on its
way to the driver, and a limit on its way to the receiver."""

_RECEIVER = re.compile(re.escape(RECEIVER) + r"(0|[1-9][0-9]*)")


def is_receiver(name: str) -> bool:
    """Whether a source of that name is a receiver: such names are theirs alone."""
    return _RECEIVER.fullmatch(name) is not None


def set_records(limits: Mapping[str, int | float]) -> int | None:
    """The records of a batch that are set; None: they are not."""
    records = limits.get("maxRecordsPerTrigger")
    return None if records is None else int(records)


def set_rate(
    limits: Mapping[str, int | float], interval_s: float, receiver: bool = False
) -> float | None:
    """The records per second that are set, in either way; None: neither is."""
    records = None if receiver else set_records(limits)
    by_batch = None if records is None else records / interval_s
    rates = [rate for rate in (limits.get("maxRate"), by_batch) if rate is not None]
    return min(rates, default=None)


def receivers_first(given: Given) -> float | None:
    """What receivers are to begin with, in records per second, for which limits are set: Spark has
    one setting for all, so the highest of theirs. None: none is set."""
    rates = [
        limits["maxRate"]
        for name, limits in given.items()
        if "maxRate" in limits and (is_receiver(name) or name == EVERY)
    ]
    return max(rates, default=None)


class Source:
    """
    Args:
        interval_ms: of the query that reads it, as long as that is not known.
        first: the rate that it begins with; None: none.
    """

    def __init__(self, name: str, receiver: bool, interval_ms: int, first: float | None) -> None:
        self.name, self.receiver, self.interval_ms = name, receiver, interval_ms
        self.query: str | None = None
        self.limited = False
        """Whether it is a receiver that was told a limit last."""
        self.stated = Timeline(first)
        self.taken: bool | None = None
        """Whether the source has taken the limit, as `Limit.taken`."""
        self.recent: float | None = None
        """Records per second that it gave of late."""
        self.wants_more = True
        """Whether it took all that it might, or had no limit."""
        self.estimate: float | None = None
        self.estimated_at: float | None = None
        self.reason: str | None = None
        self.records: int | None = None
        self.processing_ms: int | None = None
        self.scheduling_ms: int | None = None
        self._judged: deque[tuple[int, float, float]] = deque(maxlen=JUDGED)
        """Records of batches of a receiver, what they might be, and what a second more had been."""

    def estimated(self, rate: float, at: float, reason: str) -> None:
        self.estimate, self.estimated_at, self.reason = rate, at, reason

    def while_collected(self, done: DoneBatch) -> float | None:
        """The highest rate that was in force while the records of a batch were taken; None: none,
        or not known."""
        batch = done.batch
        if done.queues and batch.batch_id is not None:  # the batch's time: they were all there
            end = batch.batch_id / 1000
            return self.stated.highest(end - done.interval_ms / 1000 - LATE_S, end)
        return self.stated.highest(
            batch.completed_at - batch.processing_ms / 1000, batch.completed_at
        )

    def took(self, given: Input, done: DoneBatch) -> None:
        """Note what the source gave to a batch of its query."""
        batch, interval_ms = done.batch, done.interval_ms
        self.query, self.interval_ms = batch.query, interval_ms
        self.records, self.processing_ms = given.records, batch.processing_ms
        self.scheduling_ms = batch.scheduling_ms
        rate = 1000 * given.records / interval_ms
        before = rate if self.recent is None else self.recent
        self.recent = RECENTLY * rate + (1 - RECENTLY) * before
        allowed = self.while_collected(done)
        self.wants_more = allowed is None or rate >= FULL * allowed
        if self.receiver:
            self._judge(given.records, allowed, interval_ms / 1000)
        elif given.tells and allowed is not None:
            # It rounds: a limit of 12.5 records is one of 12.
            most = max(1.0, allowed * interval_ms / 1000)
            self.taken = given.limit is not None and given.limit <= most + 0.5
        else:
            self.taken = None

    def _judge(self, records: int, allowed: float | None, interval_s: float) -> None:
        if allowed is None:
            self._judged.clear()
            self.taken = None
        elif records:
            self._judged.append((records, allowed * interval_s, allowed * BURST_S))
            brought = sum(each for each, _, _ in self._judged)
            might = sum(each for _, each, _ in self._judged)
            self.taken = brought <= MORE * (might + max(burst for _, _, burst in self._judged))
