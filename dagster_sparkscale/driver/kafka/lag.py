"""How far a query is behind its Kafka topics, in records and in time. Pure: no Spark, no clock.

Spark tells offsets and no times: of each partition where the batch ends (`endOffset`), and what the
newest offset was when the batch was planned (`latestOffset`; Spark's KafkaMicroBatchStream). Their
difference is the lag in records. For the lag in time the newest offsets are kept with the moments
at which they were seen: the position of the query was the newest offset at some moment between two
of these, which is interpolated, and the lag is the time since then. A position from before the
first of them is extrapolated by the rate at which records have arrived since. That is how
kafka-lag-exporter estimates the lag of consumer groups in time; Structured Streaming has no
consumer group that such a tool could look at.

What can't be told is None, never a zero: of a batch that is repeated after a restart Spark does not
tell `latestOffset`, and offsets that went back, or partitions that are gone, say nothing of a lag.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.batches.offsets import NotKnown, behind, offsets
from dagster_sparkscale.driver.batches.reports import SourceReport
from dagster_sparkscale.driver.batches.tracked import Lag
from dagster_sparkscale.driver.wire import LARGEST

MOST_TOLD = 20
"""Partitions whose lag is told, at most: those furthest behind."""
RATE_FROM_MS = 10_000
"""Milliseconds of arrivals that a rate needs."""
_ROOM = 20_000
"""Moments kept of all partitions of a source together; each takes some 100 bytes."""
_MOST_EACH, _LEAST_EACH = 400, 8
"""The bounds of one partition."""
_KAFKA = re.compile(r"Kafka\w*\[")
"""Begins the description of each of Spark's sources for Kafka: KafkaV2[Subscribe[clicks]]."""


class Arrivals:
    """The newest offsets of one partition in time, as far as they were read."""

    def __init__(self) -> None:
        self._at: list[int] = []
        self._newest: list[int] = []

    def __len__(self) -> int:
        return len(self._at)

    def see(self, at_ms: int, newest: int, most: int = _MOST_EACH) -> None:
        """The newest offset at a moment, milliseconds since the epoch.

        Args:
            most: moments to keep. Where there are more, every other one between the first and the
                last is left out: how far they go back is worth more than how close they are.
        """
        # Made anew; or the clock was set back.
        if self._at and (newest < self._newest[-1] or at_ms < self._at[-1]):
            self._at.clear()
            self._newest.clear()
        if self._at and at_ms == self._at[-1]:
            self._newest[-1] = newest
            return
        if self._newest[-2:] == [newest, newest]:  # nothing came: its begin and its end will do
            self._at[-1] = at_ms
            return
        self._at.append(at_ms)
        self._newest.append(newest)
        if len(self._at) > most:
            self._at[1:-1] = self._at[1:-1:2]
            self._newest[1:-1] = self._newest[1:-1:2]

    def forget_before(self, position: int) -> None:
        """Forget what no position from this one on needs."""
        needless = bisect_right(self._newest, position) - 1
        if needless > 0:
            del self._at[:needless]
            del self._newest[:needless]

    def left_at(self, position: int) -> float | None:
        """When the newest offset was last at `position`, milliseconds since the epoch; None: that
        is not known.

        Args:
            position: below the newest offset.
        """
        before = bisect_right(self._newest, position) - 1
        if before >= 0:
            return self._between(before, before + 1, position)
        if not self._at or self._at[-1] - self._at[0] < RATE_FROM_MS:
            return None
        if self._newest[-1] == self._newest[0]:
            return None  # nothing has come since: no rate tells when the rest did
        return self._between(0, -1, position)

    def _between(self, one: int, other: int, position: int) -> float:
        """Interpolate between two of the moments."""
        per_record = (self._at[other] - self._at[one]) / (self._newest[other] - self._newest[one])
        return self._at[one] + (position - self._newest[one]) * per_record


class _Source:
    """One source for Kafka."""

    def __init__(self) -> None:
        self._arrivals: dict[str, Arrivals] = {}

    def see(self, at_ms: int, latest: Mapping[str, int]) -> None:
        """The newest offsets at a moment, milliseconds since the epoch."""
        most = max(_LEAST_EACH, min(_MOST_EACH, _ROOM // len(latest)))
        self._arrivals = {each: self._arrivals.get(each) or Arrivals() for each in latest}
        for partition, newest in latest.items():
            self._arrivals[partition].see(at_ms, newest, most)

    def behind_ms(self, at_ms: int, end: Mapping[str, int], lags: Mapping[str, int]) -> int:
        """How far behind it is at that moment, in milliseconds; of the partition furthest behind.

        Args:
            end: of each partition, where the query is.
            lags: of each partition, in records.

        Raises:
            NotKnown: a partition is behind since before the first moment that was seen.
        """
        furthest = 0.0
        for partition, lag in lags.items():
            arrivals = self._arrivals[partition]
            arrivals.forget_before(end[partition])
            if not lag:
                continue
            left_at = arrivals.left_at(end[partition])
            if left_at is None or not at_ms - left_at < LARGEST:
                raise NotKnown(
                    f"partition {partition} is {lag} records behind since before this driver began "
                    "to look, and at which rate they arrive is not known"
                )
            furthest = max(furthest, at_ms - left_at)
        return int(furthest)

    def at_least_ms(self, at_ms: int, end: Mapping[str, int], latest: Mapping[str, int]) -> int:
        """How far behind it is at that moment by what is known of its partitions, in milliseconds:
        those of which nothing is known may be further behind."""
        furthest = 0.0
        for partition, at in end.items():
            if latest.get(partition, at) > at:
                left_at = self._arrivals[partition].left_at(at)
                if left_at is not None and at_ms - left_at < LARGEST:
                    furthest = max(furthest, at_ms - left_at)
        return int(furthest)


class KafkaLag(Lag):
    """How far one query is behind all that it reads from Kafka.

    `partitions` has the `MOST_TOLD` that are furthest behind; None where that is not known of each
    of its partitions.
    """

    def __init__(self) -> None:
        self._sources: dict[int, _Source] = {}

    @property
    def reads(self) -> bool:
        """Whether the query has told of a source for Kafka."""
        return bool(self._sources)

    def see(self, at_ms: int, progress: Mapping[str, Any]) -> list[SourceReport | None]:
        """What its sources tell of themselves; None for one that is not for Kafka. Where one of
        them does not know how far behind it is, none is told to: the others may be further behind.

        Args:
            at_ms: when the trigger of that progress began, milliseconds since the epoch.
        """
        at_ms += _asked_for(progress)
        self.unknown = self.at_least_ms = None
        least: list[int] = []
        reports: list[SourceReport | None] = []
        partitions: dict[str, int] = {}
        counted = True
        for number, told in enumerate(progress.get("sources") or ()):
            if not _KAFKA.match(str(told.get("description"))):
                reports.append(None)
                continue
            source = self._sources.setdefault(number, _Source())
            end, latest = offsets(told.get("endOffset")), offsets(told.get("latestOffset"))
            if latest is not None:
                source.see(at_ms, latest)
            behind_ms: int | None = None
            lags: dict[str, int] | None = None
            try:
                lags = behind(end, latest)
                behind_ms = source.behind_ms(at_ms, end or {}, lags)
            except NotKnown as why:
                self.unknown = str(why)
            if behind_ms is not None:
                least.append(behind_ms)
            elif end and latest:
                least.append(source.at_least_ms(at_ms, end, latest))
            counted = counted and lags is not None
            for partition, lag in (lags or {}).items():  # two sources may read one topic
                partitions[partition] = max(lag, partitions.get(partition, 0))
            read = latest or end
            reports.append(SourceReport(behind_ms, len(read) if read else None))
        self.partitions = _furthest(partitions) if counted else None
        if self.unknown is None:
            return reports
        self.at_least_ms = max(least, default=0) or None
        return [each and replace(each, behind_ms=None) for each in reports]

    def end(self) -> None:
        """The query has ended."""
        self.partitions = self.unknown = self.at_least_ms = None


def _asked_for(progress: Mapping[str, Any]) -> int:
    """Milliseconds in which Spark asked for the newest offsets, which are of the end of these: a
    broker that is away holds them up for minutes."""
    durations: Mapping[str, Any] = progress.get("durationMs") or {}
    asked: Any = durations.get("latestOffset")
    return max(0, asked) if isinstance(asked, int) and not isinstance(asked, bool) else 0


def _furthest(lags: Mapping[str, int]) -> dict[str, int] | None:
    furthest = sorted(lags.items(), key=lambda item: (-item[1], item[0]))[:MOST_TOLD]
    return dict(furthest) or None
