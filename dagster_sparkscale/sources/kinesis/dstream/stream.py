"""Kinesis for DStreams, without receivers: the counterpart of Kafka's createDirectStream.

What a batch is to read is planned on the driver, as ranges of sequence numbers; each range is a
partition of the batch's RDD, and the tasks that use it read it. Positions are committed when all
output operations of a batch have succeeded, in order: every record is processed at least once.
A program that keeps the positions of each batch itself (`positions_of`) has exactly once.

What there is to know when running it:

- An output operation that fails stops the streaming context, and `awaitTermination` raises its
  error. Nothing is read past a failed batch; the next start, from the same store, repeats it.
- While Kinesis cannot be reached, batches are empty; after `commits.OUTAGE_S` that is an error
  too. Data that was lost (failOnDataLoss) is one at once.
- While a batch runs, the ones that become due are empty, and the next after it has what they would
  have had. So records wait in Kinesis, and a batch may take longer than the interval: a short
  interval costs little. With spark.streaming.concurrentJobs above 1, so many batches are planned
  ahead and run at a time; then a batch that has failed may come after its successors when it is
  repeated.
- An RDD reads from Kinesis each time it is computed: with several output operations, `cache()`.
- Spark's own checkpoints (`ssc.checkpoint`), and with them what needs one (updateStateByKey,
  windows with an inverse function), are refused: a context that was recovered from one would
  apply batches twice, or never. Windows are empty after a restart.
"""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from pyspark import RDD
from pyspark.streaming import StreamingContext
from pyspark.streaming.dstream import TransformedDStream

from dagster_sparkscale.sources.kinesis.client import KinesisError
from dagster_sparkscale.sources.kinesis.live_limits import heeded, live
from dagster_sparkscale.sources.kinesis.options import Options, OptionsError, Start, parse
from dagster_sparkscale.sources.kinesis.planner import BatchPlan, Planner
from dagster_sparkscale.sources.kinesis.positions import Offset
from dagster_sparkscale.sources.kinesis.ranges import Range
from dagster_sparkscale.sources.kinesis.records import KinesisRecord, about, read_ranges
from dagster_sparkscale.sources.kinesis.retention import DataLost
from dagster_sparkscale.sources.kinesis.service import service_for

from .commit_files import CommitFiles
from .commits import Patience
from .committer import Committer
from .scheduler import Batches

log = logging.getLogger(__name__)


def kinesis_direct_stream(
    ssc: StreamingContext,
    options: Mapping[str, Any] | None = None,
    *,
    starting_positions: Mapping[str, Any] | None = None,
    store: str | None = None,
    **more: Any,
) -> "KinesisDirectDStream":
    """A DStream of `KinesisRecord` from an Amazon Kinesis stream.

        clicks = kinesis_direct_stream(
            ssc, streamName="clicks", region="eu-central-1", store="s3a://bucket/positions/clicks"
        )

    Args:
        options: those of `format("kinesis-direct")`, by the same names; they may be given by
            keyword too. `endingPosition` is for batch reads only.
        starting_positions: where to begin, if the store has nothing: the last sequence number
            read of each shard, or what `KinesisDirectDStream.committed` was.
        store: a folder where committed positions are kept, on any file system that Hadoop knows;
            for this stream of this program alone. What it has goes before any starting position.
            Without one, where to begin is up to the program.

    Raises:
        OptionsError: an option is missing, unknown or wrong.
        DataLost: the starting position is older than what the stream retains.
        KinesisError: the stream cannot be reached, or does not have these shards.
        StoreError: the store cannot be read or written.
        ValueError: the store, or `starting_positions`, is of another stream; or `ssc` has a
            checkpoint directory.
    """
    texts = {**(options or {}), **more}
    kept: Mapping[str, Any] | None = None
    if starting_positions is not None:
        if "startingposition" in {name.lower() for name in texts}:
            raise OptionsError("startingPosition: is given by starting_positions too: leave it out")
        if "v" in starting_positions and "shards" in starting_positions:
            kept = starting_positions
        else:
            texts["startingPosition"] = json.dumps(dict(starting_positions))
    parsed = parse(texts)
    if parsed.end is not None:
        raise OptionsError("endingPosition: is for batch reads; a DStream has no end")
    if ssc._jssc.ssc().checkpointDir():
        raise ValueError(_NO_CHECKPOINTS)
    return KinesisDirectDStream(ssc, parsed, kept, store)


class BatchPositions(NamedTuple):
    """The begin and the end of a batch, each in the form of `KinesisDirectDStream.committed`."""

    start: dict[str, Any]
    end: dict[str, Any]


class KinesisDirectDStream(TransformedDStream):  # type: ignore[misc]
    """Made by `kinesis_direct_stream`."""

    def __init__(
        self,
        ssc: StreamingContext,
        options: Options,
        kept: Mapping[str, Any] | None,
        store: str | None,
    ) -> None:
        context = ssc.sparkContext
        self._options = options
        self._stream = options.connection.stream
        self._planner = Planner(
            service_for(options.connection), options.fail_on_data_loss, ahead=True
        )
        positions = CommitFiles(context, store) if store is not None else None
        start = self._begin(kept, positions)
        # Has a batch at every interval, and nothing in it.
        ticks = ssc.queueStream([], default=context.parallelize([], 1))
        super().__init__(ticks, self._batch)
        self._batches = Batches(ssc, ticks._jdstream.dstream().id())
        self._jobs = int(context.getConf().get("spark.streaming.concurrentJobs", "1"))
        self._store = store
        self._committer = Committer(self._batches, positions, start, self._jobs)
        self._batches.listen(self._committer.completed)
        self._patience = Patience()
        self._lag = (0, 0, start.lost)
        self._lag_at = time.monotonic()
        self._limit: int | None = None

    @property
    def committed(self) -> dict[str, Any]:
        """Up to where all records have been processed: `{"v": 1, "stream": ..., "shards": {shard:
        {"k": kind, "s": sequence number, "t": milliseconds}}}`, where the kinds are AFTER (the last
        one that was read), AT (the next one), TRIM (nothing yet), TS (nothing yet; begins at t) and
        END (closed, and read). It can be kept as JSON and given as `starting_positions`."""
        return self._committer.committed.to_json()

    def positions_of(self, time: datetime) -> BatchPositions | None:
        """The positions of the batch of `time`, for its output operation to keep.

            def write(time, rdd):
                positions = clicks.positions_of(time)

        A program that keeps `end` in the transaction that keeps the results, and begins there
        (`starting_positions`), has each record exactly once; one that keeps it before it processes
        the records has each at most once. Where what is kept is not `start`, another program has
        written meanwhile, or a batch was left out.

        Returns:
            None if the batch reads nothing: there is nothing to keep.

        Raises:
            LookupError: no batch of this time is in progress.
            ValueError: the positions would not be where the next start begins, or not in order.
        """
        if self._store is not None:
            raise ValueError(
                f"store = {self._store!r}: the next start begins at what the store has. Leave it "
                "out, to keep positions with the results"
            )
        if self._jobs > 1:
            raise ValueError(
                f"spark.streaming.concurrentJobs = {self._jobs}: must be 1 for a program that "
                "keeps positions; several batches at a time end in any order"
            )
        span = self._committer.span_of(_milliseconds(time))
        return None if span is None else BatchPositions(*(each.to_json() for each in span))

    def __reduce__(self) -> Any:
        # Spark pickles what it is to checkpoint.
        raise ValueError(_NO_CHECKPOINTS)

    def _begin(self, kept: Mapping[str, Any] | None, store: CommitFiles | None) -> Offset:
        if store is not None and (stored := store.load(self._stream)) is not None:
            log.info("%s: going on from what %s has", self._stream, store.folder)
            return stored
        if kept is not None:
            start = _offset(kept, self._stream)
        else:
            start = self._planner.begin(self._options.start or Start(latest=True))
        if store is not None:
            # So that `latest` is the same moment after a crash in the first batch.
            store.save(start)
        return start

    def _batch(self, moment: datetime, _: "RDD[Any]") -> "RDD[KinesisRecord]":
        """The RDD of a batch. Called once for each, in order, by the thread that makes its jobs."""
        self._committer.start()
        time_ms = _milliseconds(moment)
        start = self._committer.next_start(time_ms)
        plan = self._plan(start) if start is not None else None
        ranges = plan.ranges if plan is not None else ()
        if self._committer.planned(time_ms, plan):
            records = sum(about(each) for each in ranges)
            self._batches.note(time_ms, records, self._stream, self._limit)
            self._report(plan)
        return self._rdd(ranges)

    def _plan(self, start: Offset) -> BatchPlan | None:
        """None if Kinesis does not answer, but may yet."""
        if (took := self._committer.took()) is not None:
            self._planner.took(*took)
        limits = live(self._options)
        try:
            plan = self._planner.plan(start, limits)
        except DataLost:
            raise
        except KinesisError as error:
            if self._patience.is_over(time.monotonic()):
                raise
            log.warning("%s: no batch can be planned: %s; trying again", self._stream, error)
            return None
        self._patience.worked()
        self._limit = heeded(limits, plan.shards)
        return plan

    def _rdd(self, ranges: Sequence[Range]) -> "RDD[KinesisRecord]":
        context = self._sc
        planned = context.parallelize(ranges, len(ranges)) if ranges else context.emptyRDD()
        rdd = planned.mapPartitions(partial(read_ranges, self._options))
        return rdd.setName(f"{self._stream}: {len(ranges)} shards")

    def _report(self, plan: BatchPlan | None) -> None:
        now = time.monotonic()
        if plan is not None:
            self._lag, self._lag_at = (plan.behind_ms, plan.shards, plan.end.lost), now
        behind_ms, shards, lost = self._lag
        # Where nothing was planned, the stream has gone on without it.
        waited_ms = round((now - self._lag_at) * 1000)
        self._batches.report(self._stream, behind_ms + waited_ms, shards, lost)


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _offset(kept: Mapping[str, Any], stream: str) -> Offset:
    try:
        return Offset.from_json(kept, stream)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"starting_positions: {error}") from None


_NO_CHECKPOINTS = (
    "a Kinesis direct stream cannot be checkpointed by Spark: leave out ssc.checkpoint(), and keep "
    "positions with store=... For state over batches there is Structured Streaming, with "
    'format("kinesis-direct")'
)
