"""The Spark settings of a submission, and the file they travel in. Pure.

What must not change: a setting that the user gave always wins over one of ours, but for those that
a field of the declaration makes, and for Spark's own allocation, which stays off; every value
survives the way through Java's properties format unchanged, so that no value can become a second
setting.
"""

import re
from collections.abc import Mapping, Sequence

from dagster_sparkscale.declare.reserved import RIVAL_SWITCHES
from dagster_sparkscale.declare.stream import Stream

# What makes scaling down cheap: executors hand over their blocks before they go, and are made to
# go if they do not. Storage decommissioning looks for blocks every 30 s by default: an executor
# would sit idle that long.
_DECOMMISSION = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "1s",
    "spark.executor.decommission.forceKillTimeout": "120s",
}

_SHARING = re.compile(
    r"-Xshare|SharedArchive|ArchiveClassesAtExit|DynamicDump|-XX:[+-]?AOT|VMOptionsFile|-XX:Flags"
    r"|(^|[\s'\"])@"
)


def speaks_of_sharing(java_options: str) -> bool:
    """Whether a user's JVM options decide about class-data sharing, or may, being in a file. Ours
    beside them would contradict: a JVM told to use an archive and to make one does not start."""
    return _SHARING.search(java_options) is not None


def settings(
    stream: Stream,
    epoch: int,
    master: str,
    common: Mapping[str, str] | None = None,
    driver_host: str | None = None,
    class_data: Mapping[str, Sequence[str]] | None = None,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All settings that the driver of `stream` is started with.

    `common` are settings of the cluster; the stream's own win over them, and both win over the
    defaults made here. `class_data` are JVM options for "driver" and "executor"; they stand before
    those that are set, so that a JVM, which takes the last of two, heeds the user's. `more` are
    settings of this one start, and what was tuned; they win over all others.
    """
    ceiling = stream.bounds.ceiling
    made: dict[str, str] = {"spark.ui.port": "0", **_DECOMMISSION}
    if driver_host:
        made["spark.driver.host"] = driver_host
        made["spark.driver.bindAddress"] = driver_host
    if ceiling is not None:
        made["spark.cores.max"] = str(ceiling * stream.executor_cores)
    if stream.checkpoint_location and stream.kind == "structured":
        made["spark.sql.streaming.checkpointLocation"] = stream.checkpoint_location
    for part in stream.parts:
        made.update(part.defaults(stream))
    made.update(common or {})
    made.update(stream.spark_conf)
    made.update(
        {
            "spark.master": master,
            "spark.app.name": stream.name,
            "spark.executor.cores": str(stream.executor_cores),
            "spark.executor.memory": stream.executor_memory,
            "spark.driver.memory": stream.driver_memory,
            "spark.sparkscale.stream": stream.name,
            "spark.sparkscale.epoch": str(epoch),
            "spark.sparkscale.batchIntervalMs": str(interval_ms(stream)),
            # Also where the files of a Spark installation turn it on for all of its applications.
            **dict.fromkeys(RIVAL_SWITCHES, "false"),
        }
    )
    if stream.checkpoint_location:
        made["spark.sparkscale.checkpointLocation"] = stream.checkpoint_location
    for part in stream.parts:
        made.update(part.settings(stream))
    for role, java_options in (class_data or {}).items():
        defaults = f"spark.{role}.defaultJavaOptions"
        given = made.get(defaults, ""), made.get(f"spark.{role}.extraJavaOptions", "")
        if not speaks_of_sharing(" ".join(given)):
            made[defaults] = " ".join(filter(None, [in_one_line(java_options), given[0]]))
    made.update(more or {})
    return made


def in_one_line(java_options: Sequence[str]) -> str:
    """JVM options as Spark takes several from one string."""
    return " ".join(f'"{option}"' if " " in option else option for option in java_options)


def interval_ms(stream: Stream) -> int:
    """The batch interval in whole milliseconds, at least 1."""
    seconds: float = stream.batch_interval
    return max(1, round(seconds * 1000))


def properties(content: Mapping[str, str]) -> str:
    """`content` as a Java properties file, in plain ASCII.

    Spark trims values, so spaces at the ends of one are lost whatever is written here.
    """
    return "".join(f"{_escape(key, True)}={_escape(content[key])}\n" for key in sorted(content))


_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def _escape(text: str, key: bool = False) -> str:
    made = []
    for index, character in enumerate(text):
        if character in _ESCAPES:
            made.append(_ESCAPES[character])
        elif (character == " " and (key or index == 0)) or (key and character in "=:#!"):
            made.append("\\" + character)
        elif " " <= character <= "~":
            made.append(character)
        else:
            data = character.encode("utf-16-be", "surrogatepass")
            units = (data[i : i + 2].hex() for i in range(0, len(data), 2))
            made.extend(f"\\u{unit}" for unit in units)
    return "".join(made)
