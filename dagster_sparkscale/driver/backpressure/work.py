"""An estimator by how long batches take, not by how many records they have. Pure.

It learns how long a batch takes whatever is in it and how much longer by each record
(`cost_model.py`), and allows as many as fit into `target_ratio` of the batch interval. Other than
Spark's (`pid.py`):

- it has a limit from the start, and raises it by what the batches so far make certain, several
  times from one to the next;
- a small batch shows how long a batch takes at least, and takes nothing from the rate;
- where a record costs more, by its content, the rate falls by as much after a batch or two: what
  has to fit is the work, however many records it is (SPARK-20462);
- where the overhead alone fills the interval, records have a part of the time nevertheless: small
  batches would not fit either, and what comes in would never be read;
- where batches of one size do not tell what of their time is overhead, another one is tried: a
  larger one now and then at the lowest rate, a smaller one where all have become slow;
- one slow batch among others is taken for what it is (`batch_times.py`);
- the batches that wait are reckoned up, with those that the limit until now has formed behind
  them, and the next ones are smaller by as much, until none waits;
- more or fewer cores for batches change the rate in that proportion at first.
"""

import math
from collections import deque

from .batch_times import BatchTimes
from .cost_model import CostModel
from .measured import Estimate, MeasuredBatch, check_rates

DEAD_BAND, STILL = 0.04, 0.01
"""A rate that differs from the allowed one by less than the first share approaches it slowly, and
by less than the second, not at all."""
SLOWLY = 0.3
LARGEST_STEP = 10.0
"""The limit is at most so many times what a batch has had."""
CERTAINTY = 1.0
"""Standard deviations by which a larger batch than any before must fit into the interval."""
FULL = 0.9
"""Share of its limit from which a batch has had all that it might."""
DRAINED_AFTER = 3
"""Batches after which none is to wait any more."""
NEW_EXECUTORS = 0.1
"""Standard deviation of what other executors change, as a share of it."""
LEAST_WORK, OVERRUN = 0.1, 0.25
"""Records get the first share of the time, and the second one of the excess, where an empty batch
takes (nearly) its whole time: no limit makes batches fit."""
UNDER_SUSPICION = 2.0
"""The rate is at most so many times what it was while all batches since a slow one have been too
small to say whether it was chance."""
LOW, MOSTLY = 3.0, 0.7
"""Multiple of the lowest rate up to which batches may be so small for a mistake; and the share of
their time that is overhead from which larger ones take little longer anyway."""
TRIED, LARGER = 2.0, 1.5
"""The rate that is tried there, as a multiple of the one in force; and what tells a batch that was
read at it from those before."""
CHEAP = 1.25
"""What a batch that was tried may take, as a multiple of what those before took, for another one to
follow soon; near the lowest rate one of twice as many records."""
TRIED_SMALLER = 0.5
"""What is tried, as a share of the records of the last batches, where these have become slow."""
PLANNED_BEFORE = 3
"""Batches in which what is tried has to come, or it never does."""
TRY_AFTER, TRY_LATEST = 10, 160
"""Full batches after which one is tried; twice as many each time that it came to nothing, up to the
second."""
KEPT = 200
"""Changes of the rate that are remembered, and batches that wait that are looked at."""


class Work:
    """The rate of all sources of a query together.

    One class, though long: each step of the estimator reads what the step before has found.

    Args:
        min_rate: records per second; no limit is below.
        max_rate: records per second; no limit is above. None: as far as the work fits.
        initial_rate: records per second to begin with; None: `min_rate`.
        target_ratio: how much of the batch interval a batch is to take, above 0 and at most 1.

    Raises:
        ValueError: an argument is out of its bounds; the text names it.
    """

    def __init__(
        self,
        *,
        min_rate: float = 100.0,
        max_rate: float | None = None,
        initial_rate: float | None = None,
        target_ratio: float = 0.9,
    ) -> None:
        check_rates(min_rate, max_rate, initial_rate)
        if not 0 < target_ratio <= 1:
            raise ValueError(f"target_ratio = {target_ratio!r}: must be above 0 and at most 1")
        self._least, self._most = min_rate, max_rate
        self._target = target_ratio
        self._rate = self._capacity = min_rate if initial_rate is None else initial_rate
        # The capacity is the rate while no batch waits.
        self._given: deque[tuple[float, float]] = deque(maxlen=KEPT)
        """(seconds since the epoch, rate) of each change of it."""
        self._times = BatchTimes()
        self._shown = 0
        """The most records that a batch has had and fitted into the interval with."""
        self._starved, self._try_after = 0, TRY_AFTER
        """Full batches at the lowest rate in a row, and after how many another is tried."""
        self._trying: float | None = None
        """Records of the batches before, while another rate is tried."""
        self._tried_rate = self._tried_at = 0.0
        """The rate that is tried, and the capacity when a higher one was tried last."""
        self._times_more, self._cheap = 1.0, True
        """The multiple that was tried last, and whether that batch took hardly any longer."""
        self._cores: int | None = None

    @property
    def rate(self) -> float:
        return self._rate

    def completed(self, seen: MeasuredBatch) -> Estimate | None:
        if seen.failed:
            return None
        interval = seen.interval_ms / 1000
        self._rescale(seen.cores)
        model = self._times.model
        if seen.records and seen.processing_ms and not seen.cold:
            model = self._learn(seen, interval)
            self._settle(model, seen, interval)
            self._look_whether_starved(model, seen, interval)
            if seen.scheduling_ms is None:
                self._look_whether_overhead(model, seen, interval)
        if model is None:
            return None
        rate, waiting = self._capacity, 0.0
        if self._trying is not None:
            rate = self._tried_rate
        if seen.scheduling_ms is not None:
            waiting, begun = self._waiting(model, seen, interval)
            if waiting > 0:
                rate = min(rate, self._draining(model, waiting, begun, interval))
        self._rate = self._bounded(rate)
        if not self._given or self._given[-1][1] != self._rate:
            self._given.append((seen.completed_at, self._rate))
        return Estimate(self._rate, self._words(model, interval, waiting))

    def _rescale(self, cores: int | None) -> None:
        """Adapt the estimate to more cores, or fewer."""
        if not cores:
            return
        if self._cores and self._cores != cores and self._times.model:
            factor = self._cores / cores
            self._times.model = self._times.model.scaled(factor, NEW_EXECUTORS)
            self._capacity = self._bounded(self._capacity / factor)
            self._shown = int(self._shown / factor)
        self._cores = cores

    def _learn(self, seen: MeasuredBatch, interval: float) -> CostModel:
        """What to go by after this batch."""
        seconds = seen.processing_ms / 1000
        if seconds <= interval:
            self._shown = max(self._shown, seen.records)
        tried_from = None
        if self._trying and not 1 / LARGER < seen.records / self._trying < LARGER:
            tried_from, self._trying = self._trying, None
            if self._times.model:
                self._cheap = seconds <= CHEAP * self._times.model.seconds(tried_from)
        return self._times.learn(seen.records, seconds, interval, tried_from)

    def _look_whether_starved(self, model: CostModel, seen: MeasuredBatch, interval: float) -> None:
        """Whether batches of one size may have been taken for slow by their records, again and
        again: a larger one is tried then."""
        lowest = self._capacity <= LOW * self._least
        idle = model.overhead >= MOSTLY * self._target * interval
        full = seen.limit is not None and seen.records >= FULL * seen.limit
        waits = seen.scheduling_ms is not None and seen.scheduling_ms > STILL * seen.interval_ms
        room = self._bounded(TRIED * self._capacity) > LARGER * self._capacity
        if not (lowest or idle) or not full or waits or not room or self._times.surprised:
            self._starved, self._trying = 0, None
            return
        self._starved += 1
        if self._starved >= PLANNED_BEFORE:
            self._trying = None
        if self._starved >= self._try_after:
            nothing_fits = model.overhead >= (1 - LEAST_WORK) * self._target * interval
            cheap = self._cheap and (lowest or nothing_fits)
            gained = cheap or self._capacity > LARGER * self._tried_at
            self._try_after = TRY_AFTER if gained else min(2 * self._try_after, TRY_LATEST)
            self._times_more = min(TRIED * self._times_more, LARGEST_STEP)
            if not cheap or not lowest:
                self._times_more = TRIED
            self._starved, self._tried_at, self._trying = 0, self._capacity, seen.records
            self._tried_rate = self._times_more * self._capacity

    def _look_whether_overhead(
        self, model: CostModel, seen: MeasuredBatch, interval: float
    ) -> None:
        """Whether batches have become so slow that their overhead alone seems to take the time: a
        smaller one shows whether it does."""
        full = seen.limit is not None and seen.records >= FULL * seen.limit
        if self._times.undivided and full and model.overhead > self._target * interval:
            self._trying = seen.records
            self._tried_rate = TRIED_SMALLER * seen.records / interval

    def _settle(self, model: CostModel, seen: MeasuredBatch, interval: float) -> None:
        """Change the capacity, as far as there is reason to."""
        lasts = self._lasts(model, interval, queues=seen.scheduling_ms is not None)
        left = max(0.0, lasts - model.overhead) / interval
        fitting = left / self._cost(model)
        if lasts > self._target * interval:
            # Batches that are nearly all overhead show little of what a record costs.
            highest = self._cost(model) + CERTAINTY * math.sqrt(model.var_cost)
            fitting = max(left / highest, min(fitting, LOW * self._least))
        if fitting > self._capacity:
            certain = self._certain(model, seen.records, interval, lasts)
            fitting = min(fitting, max(certain, self._capacity))
        if self._times.suspects:
            fitting = min(fitting, UNDER_SUSPICION * self._capacity)
        apart = abs(fitting - self._capacity) / self._capacity
        if apart > DEAD_BAND:
            self._capacity = self._bounded(fitting)
        elif apart > STILL:
            slowly = self._capacity + SLOWLY * (fitting - self._capacity)
            self._capacity = self._bounded(slowly)

    def _lasts(self, model: CostModel, interval: float, queues: bool) -> float:
        """Seconds that a batch is to take.

        Args:
            queues: whether batches that take longer than their interval wait for each other: then
                they have to fit.
        """
        lasts = self._target * interval
        known = self._times.model or model
        # What one slow batch says alone, or is not certain, lets no larger ones in.
        sure = min(model.overhead, known.overhead - known.uncertainty(0))
        over = max(0.0, sure - lasts)
        least = model.overhead + LEAST_WORK * lasts + OVERRUN * over
        return lasts if queues else max(lasts, least)

    def _certain(self, model: CostModel, records: int, interval: float, lasts: float) -> float:
        """The highest rate whose batches fit into the interval, or take no longer than they are to,
        after one of `records`."""
        most = max(LARGEST_STEP * records, self._shown)
        longest = max(interval, lasts / self._target)
        # Were all of its time the cost of its records, so many would fit at any rate.
        low = records * lasts / model.seconds(records)
        low, high = min(low, most), most
        for _ in range(40):
            middle = (low + high) / 2
            if model.seconds(middle) + CERTAINTY * model.uncertainty(middle) <= longest:
                low = middle
            else:
                high = middle
        return low / interval

    def _waiting(
        self, model: CostModel, seen: MeasuredBatch, interval: float
    ) -> tuple[float, float]:
        """Seconds that the batch which is being formed will wait, by what was formed before it;
        and how much of its interval is over, as a share."""
        busy = ((seen.scheduling_ms or 0) + seen.processing_ms) / 1000
        formed = seen.completed_at - busy
        full = min(1.0, seen.records / seen.limit) if seen.limit else 1.0
        behind = min(int(busy / interval), KEPT)
        begun = min(1.0, busy / interval - behind)
        for number in range(behind):
            rate = self._rate_at(formed + (number + 0.5) * interval)
            records = seen.records if rate is None else rate * interval * full
            busy += model.seconds(records)
        return max(0.0, busy - (behind + 1) * interval), begun

    def _draining(self, model: CostModel, waiting: float, begun: float, interval: float) -> float:
        """The rate at which none waits any more after some batches. The first of them is the one
        that is being formed, and has come at the present rate until now."""
        seconds = DRAINED_AFTER * (interval - model.overhead) - waiting
        records = seconds / self._cost(model) - begun * self._rate * interval
        return max(0.0, records) / interval / (DRAINED_AFTER - begun)

    def _rate_at(self, at: float) -> float | None:
        """The limit that was in force then; None: that is too long ago."""
        return next((rate for when, rate in reversed(self._given) if when <= at), None)

    def _cost(self, model: CostModel) -> float:
        """Seconds per record."""
        return max(model.cost, 1e-18)

    def _bounded(self, rate: float) -> float:
        return max(self._least, rate if self._most is None else min(rate, self._most))

    def _words(self, model: CostModel, interval: float, waiting: float) -> str:
        words = (
            f"a batch takes {model.overhead:.2f} s, and {1000 * self._cost(model):.3g} s for each "
            f"1,000 records; {self._target:.0%} of {interval:g} s: {self._capacity:,.0f} records/s"
        )
        if waiting > STILL * interval:
            words += f"; fewer, as batches wait for {waiting:.1f} s"
        elif self._trying is not None:
            words += f"; {self._rate:,.0f} are tried once, to see what of it is for records"
        return words
