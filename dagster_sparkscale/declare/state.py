"""What a user declares of the state that a stream's queries keep, and how it may be changed.

Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, StrictBool, field_validator

from dagster_sparkscale.declare.cron import check_cron, check_timezone
from dagster_sparkscale.declare.declaration import Count, Declaration, Seconds, Whole
from dagster_sparkscale.declare.key_groups import MOST_KEY_GROUPS, KeyGroups
from dagster_sparkscale.declare.waves import ROWS_PER_PARTITION

LONGEST_RECONFIGURATION = 86400.0
"""Seconds; a run that waits for longer has been forgotten by whoever started it."""

STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""To Spark, how many partitions the state of a query that is new gets, too."""


class State(Declaration):
    """The state that the stateful queries of a stream keep, and how its partitions may change."""

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
    """Of `maintenance`, such as `Europe/Berlin`. None: UTC."""

    within: Annotated[Seconds, Field(le=LONGEST_RECONFIGURATION)] = 1800.0
    """Seconds that a whole change is waited for: stop, rewriting, start, first batch."""

    rows_per_partition: Count = ROWS_PER_PARTITION
    """Rows above which more partitions are recommended."""

    align_executors: StrictBool = False
    """Whether the autoscaler asks for no executors that leave the number of task waves as it is."""

    @property
    def groups(self) -> KeyGroups:
        return KeyGroups(self.key_groups)

    @field_validator("maintenance")
    @classmethod
    def _is_a_schedule(cls, value: str | None) -> str | None:
        if value is not None:
            check_cron("maintenance", value)
        return value

    @field_validator("timezone")
    @classmethod
    def _is_a_timezone(cls, value: str | None) -> str | None:
        if value is not None:
            check_timezone("timezone", value)
        return value

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        number = self.partitions
        if number is not None and (why := self.groups.why_not(number, self.plain_hash)):
            yield f"partitions = {number}: {why}"
        if self.timezone is not None and self.maintenance is None:
            yield f"timezone = {self.timezone!r}: drop it, or give maintenance, which it is for"


def check_state(state: State, checkpoint: str | None, spark_conf: Mapping[str, str]) -> None:
    """Refuse a state that has no place, or that settings of the stream say otherwise of.

    Args:
        checkpoint: where it is; None: none is declared.

    Raises:
        ValueError: it is one.
    """
    if checkpoint is None:
        raise ValueError(
            "checkpoint_location = None: must be given for a stream with state, which is in it"
        )
    if state.partitions is not None and SHUFFLE_PARTITIONS in spark_conf:
        raise ValueError(
            f"spark_conf: drop {SHUFFLE_PARTITIONS}, or state.partitions, which sets it"
        )
    provider = spark_conf.get(STATE_PROVIDER, "").rpartition(".")[2]
    if provider == "HDFSBackedStateStoreProvider":
        raise ValueError(
            f"spark_conf: drop {STATE_PROVIDER}: the partitions of what {provider} keeps can't "
            "be changed; a query that has run keeps its provider anyway"
        )
