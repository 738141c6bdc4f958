"""How much each receiver took of late. Pure: no Spark, no clock."""

from collections import deque

from dagster_sparkscale.driver.batches.reports import DoneBatch
from dagster_sparkscale.driver.settings import RECEIVER

WINDOW_MS = 30_000
"""What the latest batches took in that time counts, of one batch at least."""
MOST = 1000
"""Batches that are remembered."""


class ReceiverRates:
    """Records per second of each receiver. One thread tells it of batches, any may ask."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int, dict[int, int]]] = deque(maxlen=MOST)
        """The time and the interval of each batch, in ms, and the records of its receivers."""
        self._rates: dict[int, float] = {}

    def completed(self, done: DoneBatch) -> None:
        """A batch has completed."""
        taken = {
            int(given.source.removeprefix(RECEIVER)): given.records
            for given in done.inputs
            if given.receiver and given.source is not None
        }
        if not taken or done.batch.batch_id is None:
            return
        self._batches.append((done.batch.batch_id, done.interval_ms, taken))
        newest = max(time for time, _, _ in self._batches)
        while newest - self._batches[0][0] >= WINDOW_MS:
            self._batches.popleft()
        records: dict[int, int] = {}
        lasted: dict[int, int] = {}
        for _, interval, took in self._batches:
            for stream, number in took.items():
                records[stream] = records.get(stream, 0) + number
                lasted[stream] = lasted.get(stream, 0) + interval
        # Replaced as a whole, and never changed.
        self._rates = {stream: 1000 * records[stream] / lasted[stream] for stream in records}

    def rate(self, stream_id: int) -> float | None:
        """Records per second; None: it has given no batch anything yet."""
        return self._rates.get(stream_id)
