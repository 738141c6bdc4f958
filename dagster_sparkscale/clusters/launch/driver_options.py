"""What a driver is told on its command line, wherever it runs. Pure.

What must not change: nothing of it is secret, for command lines show in process lists and on the
pages of cluster managers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster_sparkscale.clusters.launch.spark_settings import interval_ms
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.begin.fence import ENDS_WITHIN


@dataclass(frozen=True)
class Invocation:
    """How a driver is to run the program of its stream."""

    stream: Stream
    program: Any
    """The program as its cluster manager has found it."""
    arguments: Sequence[str] = ()
    """The arguments of the program."""
    settings: Mapping[str, str] | None = None
    """Spark settings of this one start, over all others."""


def driver_options(stream: Stream, start: EpochStart, unseen: bool = False) -> list[str]:
    """The options that say which driver it is and how it begins. Where its token is, where it
    listens and what program it runs are the cluster manager's to add.

    Args:
        unseen: as for `fence_options`.
    """
    bounds, record = stream.bounds, start.record
    executors = bounds.initial if record.executors is None else record.executors
    maximum = [] if bounds.ceiling is None else ["--max-executors", str(bounds.ceiling)]
    return [
        *("--stream", stream.name, "--epoch", str(record.epoch)),
        *("--interval-ms", str(interval_ms(stream))),
        *("--initial-executors", str(executors)),
        *maximum,
        *fence_options(start, unseen),
    ]


def fence_options(start: EpochStart, unseen: bool = False) -> list[str]:
    """What the driver is told of the checkpoint that it may take.

    Args:
        unseen: whether nobody has seen the end of the driver that took it last.
    """
    if start.record.checkpoint is None:
        return []
    options = ["--record", start.record.id]
    if start.succeeds is not None:
        id, epoch = start.succeeds
        options += ["--succeeds", f"{id}:{epoch}"]
        if unseen or start.ended_unnoticed:
            options += ["--outwait", str(ENDS_WITHIN)]
    return options
