"""What a user declares of the state that a stream's queries keep, and how it may be changed.

Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field, StrictBool

from dagster_sparkscale.declare.cron import schedule_faults
from dagster_sparkscale.declare.declaration import Count, Declaration, Seconds, Whole
from dagster_sparkscale.declare.key_groups import MOST_KEY_GROUPS, KeyGroups
from dagster_sparkscale.declare.part import Drift, Part, StreamOfParts
from dagster_sparkscale.declare.waves import ROWS_PER_PARTITION
from dagster_sparkscale.driver.wire import KEY_GROUPS, PLAIN_HASH, PLAN

LONGEST_RECONFIGURATION = 86400.0
"""Seconds; a run that waits for longer has been forgotten by whoever started it."""

STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting for the partitions of a shuffle, and of the state of a new query."""


class State(Declaration, Part):
    """The state that the stateful queries of a stream keep, and how its partitions may change."""

    reserved: ClassVar[Mapping[str, str]] = {
        KEY_GROUPS: "state.key_groups",
        PLAIN_HASH: "state.plain_hash",
        PLAN: "the operation reconfigure_state",
    }
    drifts: ClassVar[Mapping[str, Drift]] = {
        "state.key_groups": Drift("for queries that have not run yet; it is fixed once one has"),
        "state.partitions": Drift(
            "for queries that have not run yet; reconfigure_state changes others"
        ),
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
        # do.
        cores = (stream.bounds.maximum or stream.bounds.initial) * stream.tasks_at_a_time
        return {STATE_PROVIDER: _ROCKSDB, SHUFFLE_PARTITIONS: str(self.groups.covering(cores))}

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
