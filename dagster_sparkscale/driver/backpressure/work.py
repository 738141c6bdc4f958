"""An estimator by how much work batches are, not by how many records they have. Pure.

It learns how long a batch takes without records and how much longer by each (`cost_model.py`), and
allows as many as fit into `target_ratio` of the batch interval. So, other than Spark's
(`pid.py`):

- it begins with a limit, and grows it by what the batches so far make certain, several times a batch;
- a small batch teaches it the overhead of batches, and takes nothing from the rate;
- a record that costs more, by its content, lowers the rate by as much after a batch or two (SPARK-20462:
  it is the work that has to fit, whatever its records); by bytes at once, where the source tells them;
- one slow batch among others is taken for what it is;
- batches that wait are counted, with those that the present limit has formed and that are to come:
  the next ones are smaller by just the work that waits, until none does;
- more or fewer executors change the rate in that proportion at first.
"""

from collections import deque

from .cost_model import CostModel
from .seen import Estimate, Seen, check_rates

DEAD_BAND = 0.04
"""The rate stays where the work allows it to be another by less than this share."""
STILL = 0.01
SLOW = 0.3
LARGEST_STEP = 10.0
"""The limit is at most so many times what a batch had that has shown how long it takes."""
CERTAINTY = 1.5
"""Standard deviations by which a larger batch than ever must fit into the interval."""
FIRST_DOUBT = 0.5
"""How far a single batch that took too long is followed."""
DRAINED_AFTER = 3
"""Batches after which none is to wait any more."""
_NEW_EXECUTORS = 0.1
"""Standard deviation of what one executor more or less changes, as a share."""
_PER_RECORD_GAIN = 0.7
_KEPT = 1000


class Work:
    """The rate of all sources of a query together.

    Args:
        min_rate: records per second; no limit is below.
        max_rate: records per second; no limit is above.
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
        self._bounds = (min_rate, max_rate)
        self._target = target_ratio
        self._capacity = min_rate if initial_rate is None else initial_rate
        """What is believed to fit when nothing waits."""
        self._given: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        """(seconds since the epoch, rate) of each change of it."""
        self._rate = self._capacity
        self._model: CostModel | None = None
        self._surprises = 0
        """Batches in a row that took longer than expected; below 0: shorter."""
        self._executors: int | None = None
        self._per_record: float | None = None
        """Units of work of a record; None: records are what is counted."""

    @property
    def rate(self) -> float:
        return self._rate

    def completed(self, seen: Seen) -> Estimate | None:
        if seen.failed:
            return None
        self._rescale(seen.executors)
        model = self._learn(seen)
        if model is None:
            return None
        interval = seen.interval_ms / 1000
        self._settle(model, seen, interval)
        waiting, begun = self._waiting(model, seen, interval)
        rate = self._capacity
        if waiting > 0:
            rate = min(rate, self._draining(model, waiting, begun, interval))
        self._rate = self._bounded(rate)
        if not self._given or self._given[-1][1] != self._rate:
            self._given.append((seen.completed_at, self._rate))
        return Estimate(self._rate, self._words(model, interval, waiting))

    def _rescale(self, executors: int | None) -> None:
        """The same work is done by more, or fewer."""
        if not executors:
            return
        if self._executors and executors != self._executors and self._model is not None:
            factor = self._executors / executors
            self._model = self._model.scaled(factor, _NEW_EXECUTORS)
            self._capacity /= factor
        self._executors = executors

    def _learn(self, seen: Seen) -> CostModel | None:
        """What is believed now; None: nothing has been seen."""
        if seen.cold or not seen.records or not seen.processing_ms:
            return self._model
        units, seconds = self._units(seen), seen.processing_ms / 1000
        if self._model is None:
            self._model = CostModel.of_first(units, seconds, seen.interval_ms / 1000)
            return self._model
        surprise = self._model.surprise(units, seconds)
        before = self._model
        self._surprises = (
            self._surprises + surprise if surprise * self._surprises >= 0 else surprise
        )
        if not surprise:
            self._surprises = 0
        if abs(self._surprises) < 2:
            self._model = before.learned(units, seconds)
            # It is followed for now, and not remembered: the next one tells.
            return before.leapt(units, seconds, FIRST_DOUBT) if surprise > 0 else self._model
        self._model = before.leapt(units, seconds)
        return self._model

    def _units(self, seen: Seen) -> float:
        if seen.work:
            told = seen.work / seen.records
            if self._per_record is None:
                self._per_record = told
                if self._model is not None:
                    self._model = self._model.scaled(1 / told)
            else:
                self._per_record += _PER_RECORD_GAIN * (told - self._per_record)
            return seen.work
        return seen.records * (self._per_record or 1.0)

    def _fitting(self, model: CostModel, seconds: float, interval: float) -> float:
        """The rate whose batches take `seconds`."""
        left = seconds - model.overhead
        if left <= 0:
            return 0.0
        cost = model.cost * (self._per_record or 1.0)
        return left / max(cost, 1e-18) / interval

    def _settle(self, model: CostModel, seen: Seen, interval: float) -> None:
        """Change what is believed to fit, as far as the batch gives reason to."""
        fitting = self._fitting(model, self._target * interval, interval)
        if fitting > self._capacity:
            fitting = min(fitting, max(self._certain(model, seen, interval), self._capacity))
        apart = abs(fitting - self._capacity) / self._capacity
        if apart > DEAD_BAND:
            self._capacity = self._bounded(fitting)
        elif apart > STILL:
            self._capacity = self._bounded(self._capacity + SLOW * (fitting - self._capacity))

    def _certain(self, model: CostModel, seen: Seen, interval: float) -> float:
        """The highest rate whose batches fit into the interval by all that is known."""
        shown, per_record = max(seen.records, 1), self._per_record or 1.0
        expected = model.seconds(shown * per_record)
        low, high = shown * self._target * interval / expected, LARGEST_STEP * shown
        if low >= high:
            return high / interval
        for _ in range(40):
            middle = (low + high) / 2
            units = middle * per_record
            if model.seconds(units) + CERTAINTY * model.uncertainty(units) <= interval:
                low = middle
            else:
                high = middle
        return low / interval

    def _waiting(self, model: CostModel, seen: Seen, interval: float) -> tuple[float, float]:
        """How long the batch that is being formed will wait, in seconds, by what was formed before
        it; and how much of its interval is over, as a share."""
        if seen.scheduling_ms is None:
            return 0.0, 0.0
        busy = (seen.scheduling_ms + seen.processing_ms) / 1000
        formed = seen.completed_at - busy
        full = 1.0 if not seen.limit else min(1.0, seen.records / seen.limit)
        behind = min(int(busy / interval), _KEPT)
        begun = busy / interval - behind
        for number in range(1, behind + 1):
            rate = self._rate_at(formed + (number - 0.5) * interval)
            records = seen.records if rate is None else rate * interval * full
            busy += model.seconds(records * (self._per_record or 1.0))
        return max(0.0, busy - (behind + 1) * interval), min(1.0, begun)

    def _draining(self, model: CostModel, waiting: float, begun: float, interval: float) -> float:
        """The rate at which none waits any more after a few batches, the one that is being formed
        among them: part of that has come at the present rate."""
        seconds = (DRAINED_AFTER - 1 + self._target) * interval - waiting
        seconds -= DRAINED_AFTER * model.overhead
        cost = max(model.cost * (self._per_record or 1.0), 1e-18)
        records = seconds / cost - begun * self._rate * interval
        return max(0.0, records / interval / (DRAINED_AFTER - begun))

    def _rate_at(self, at: float) -> float | None:
        """The limit that was in force then; None: that is too long ago."""
        return next((rate for when, rate in reversed(self._given) if when <= at), None)

    def _bounded(self, rate: float) -> float:
        least, most = self._bounds
        return max(least, rate if most is None else min(rate, most))

    def _words(self, model: CostModel, interval: float, waiting: float) -> str:
        thousand = 1000 * model.cost * (self._per_record or 1.0)
        words = (
            f"a batch takes {model.overhead:.2f} s and {thousand:.3g} s for 1,000 records; "
            f"{self._target:.0%} of {interval:g} s are for {self._capacity:,.0f} records/s"
        )
        if waiting > 0.01 * interval:
            words += f", fewer while batches wait ({waiting:.1f} s)"
        return words
