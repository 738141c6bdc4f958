"""What a user declares of the state that a stream's queries keep, and how it may be changed.

Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool

from dagster_sparkscale.declare.cron import schedule_faults
from dagster_sparkscale.declare.declaration import Count, Declaration, Seconds, Whole
from dagster_sparkscale.declare.key_groups import MOST_KEY_GROUPS, KeyGroups
from dagster_sparkscale.declare.part import Drift, Part, StreamOfParts
from dagster_sparkscale.declare.waves import ROWS_PER_PARTITION
from dagster_sparkscale.driver.settings import KEY_GROUPS, PLAIN_HASH, PLAN
from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.beside import limits

LONGEST_RECONFIGURATION = 86400.0
"""Seconds; a run that waits for longer has been forgotten by whoever started it."""

BESIDE_ROWS = 500_000
"""About 8 s of standstill in place, on two cores."""

STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting for the partitions of a shuffle, and of the state of a new query."""
SCHEDULER_MODE = "spark.scheduler.mode"
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


class State(Declaration, Part):
    """The state that the stateful queries of a stream keep, and how its partitions may change."""

    reserved: ClassVar[Mapping[str, str]] = {
        KEY_GROUPS: "state.key_groups",
        PLAIN_HASH: "state.plain_hash",
        PLAN: "the operation reconfigure_state",
    }
    drifts: ClassVar[Mapping[str, Drift]] = {
        "state.key_groups": Drift("for queries that have none yet; what one has is fixed"),
        "state.partitions": Drift(
            "for queries that have not run yet; reconfigure_state changes others"
        ),
        "state.plain_hash": Drift("for what its page says; reconfigure_state goes by it already"),
    }

    key_groups: Annotated[Whole, Field(ge=1, le=MOST_KEY_GROUPS)]
    """Key groups of each query: fixed once it has run. The more numbers divide it, the more numbers
    of partitions there can be: 128, 360, 720."""

    partitions: Count | None = None
    """State partitions that the queries should have. None: as is recommended."""

    plain_hash: StrictBool = False
    """Whether numbers of partitions are allowed that don't divide the key groups. Spark's plain
    hash then places the keys, and every key may move."""

    maintenance: str | None = None
    """When the partitions may be changed by themselves: a cron schedule, such as `0 3 * * SUN`.
    None: only by hand."""

    timezone: str | None = None
    """The time zone of `maintenance`, such as `Europe/Berlin`. None: UTC."""

    within: Annotated[Seconds, Field(le=LONGEST_RECONFIGURATION)] = 1800.0
    """Seconds that a whole change is waited for: stop, rewriting, start, first batch."""

    standstill: Literal["seconds", "restart"] = "seconds"
    """How long the stream may stand still for a change: `seconds`, as the driver runs on and only
    the query is ended and started again, where that can be done, and else by a restart; or for a
    `restart` of the driver each time."""

    beside_rows: Annotated[Whole, Field(ge=0)] = BESIDE_ROWS
    """Rows of a query's state from which on its partitions are changed beside the stream, where
    that can be done: a copy is changed while the query runs. Fewer are changed in place in
    seconds."""

    beside_executors: Annotated[Whole, Field(ge=0)] = 0
    """Executors that the stream has more of while its state is changed beside the stream, as far as
    its maximum and its steering allow all of them. With them a stream that has nothing to spare is
    changed so as well."""

    replay: StrictBool = False
    """Whether the program's own state functions (applyInPandasWithState, transformWithState) may
    be called a second time with the same rows, so that the state that they keep can be changed
    beside the stream."""

    rows_per_partition: Count = ROWS_PER_PARTITION
    """Rows above which more partitions are recommended."""

    align_executors: StrictBool = False
    """Whether the autoscaler asks for no executors that leave the number of task waves as it is."""

    @property
    def groups(self) -> KeyGroups:
        return KeyGroups(self.key_groups)

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        number = self.partitions
        if number is not None and (why := self.groups.why_not(number, self.plain_hash)):
            yield f"partitions = {number}: {why}"
        for name, given, right in (
            ("beside_executors", self.beside_executors, 0),
            ("replay", self.replay, False),
        ):
            if given and self.standstill == "restart":
                yield (
                    f"{name} = {given}: must be {right} where standstill = 'restart', as nothing "
                    "is changed beside the stream then"
                )
        yield from schedule_faults("maintenance", self.maintenance, self.timezone)

    def check(self, stream: StreamOfParts) -> None:
        conf = stream.spark_conf
        if stream.checkpoint_location is None:
            raise ValueError(
                "checkpoint_location = None: must be given for a stream with state, which is in it"
            )
        if self.partitions is not None and SHUFFLE_PARTITIONS in conf:
            raise ValueError(
                f"spark_conf: drop {SHUFFLE_PARTITIONS}, or state.partitions, which sets it"
            )
        bounds, more = stream.bounds, self.beside_executors
        retained = conf.get(layout.RETAINED, "")
        batches = int(retained) if retained.isdecimal() else limits.LEAST_RETAINED
        if more and (why := limits.why_not_stored(conf.get(layout.FORMAT, "1"), batches)):
            raise ValueError(
                f"state.beside_executors = {more}: must be 0, or spark_conf be changed, by which "
                f"nothing is changed beside the stream: {why}"
            )
        if more and bounds.maximum is not None and bounds.minimum + more > bounds.maximum:
            raise ValueError(
                f"state.beside_executors = {more}: must be at most "
                f"{bounds.maximum - bounds.minimum}, as the stream has at least {bounds.minimum} "
                f"and at most {bounds.maximum} executors"
            )
        provider = conf.get(STATE_PROVIDER, "").rpartition(".")[2]
        if provider == "HDFSBackedStateStoreProvider":
            raise ValueError(
                f"spark_conf: drop {STATE_PROVIDER}: the partitions of what {provider} keeps can't "
                "be changed; a query that has run keeps its provider anyway"
            )

    def defaults(self, stream: StreamOfParts) -> dict[str, str]:
        # Spark's own provider keeps state in the executors' heaps, and can't repartition it. A
        # query that has run goes on with the provider and the number in its checkpoint; one that is
        # new begins with a number that divides its key groups, and gives every core something to
        # do. While state is read and copied beside the stream, batches get the cores first that
        # become free: by Spark's own order they would wait for all tasks of the copy. By changelogs
        # it is told what has changed in the last batches, so that not all is read again while the
        # query stands still; and a batch uploads its changes alone.
        cores = (stream.bounds.maximum or stream.bounds.initial) * stream.tasks_at_a_time
        return {
            STATE_PROVIDER: _ROCKSDB,
            SHUFFLE_PARTITIONS: str(self.groups.covering(cores)),
            SCHEDULER_MODE: "FAIR",
            CHANGELOGS: "true",
        }

    def settings(self, stream: StreamOfParts) -> dict[str, str]:
        made = {KEY_GROUPS: str(self.key_groups)}
        if self.partitions is not None:
            made[SHUFFLE_PARTITIONS] = str(self.partitions)
        return made | ({PLAIN_HASH: "true"} if self.plain_hash else {})

    def declared(self, stream: StreamOfParts) -> dict[str, str]:
        made = {"state.key_groups": str(self.key_groups)}
        if self.partitions is not None:
            made["state.partitions"] = str(self.partitions)
        return made | ({"state.plain_hash": "true"} if self.plain_hash else {})
