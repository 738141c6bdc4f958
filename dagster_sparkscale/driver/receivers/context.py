"""What moving receivers has to know of a SparkContext."""

from dataclasses import dataclass
from typing import Any

from dagster_sparkscale.driver.ending.drain import WRITE_AHEAD
from dagster_sparkscale.driver.spark.features import PrivateSpark
from dagster_sparkscale.driver.spark.jvm import Jvm

from .tracker import ReceiverTracker


@dataclass(frozen=True)
class Bound:
    """What belongs to one SparkContext."""

    tracker: ReceiverTracker
    local: bool
    logged: bool
    """Whether receivers keep a write-ahead log: what they took survives their executor."""
    task_cpus: int
    scala: str


def bind(context: Any, private: PrivateSpark) -> Bound:
    """Bind to a pyspark SparkContext."""
    jvm = Jvm(context)
    conf = jvm.spark.conf()
    return Bound(
        tracker=ReceiverTracker(jvm, private),
        local=bool(jvm.spark.isLocal()),
        logged=bool(conf.getBoolean(WRITE_AHEAD, False)),
        task_cpus=max(1, int(conf.getInt("spark.task.cpus", 1))),
        scala=str(jvm.view.scala.util.Properties.versionNumberString()),
    )
