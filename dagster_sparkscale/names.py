"""Names that appear in Dagster: metadata keys, tags, jobs. Users build plots and alerts on them.

Pure.
"""

import re

PREFIX = "dagster-sparkscale/"

STREAM_TAG = PREFIX + "stream"
CLUSTER_TAG = PREFIX + "cluster"
OPERATION_TAG = PREFIX + "operation"
EPOCH_TAG = PREFIX + "epoch"
EXPIRES_TAG = PREFIX + "expires"
"""Tag of a run that changes nothing when it starts too late."""
OUTCOME_TAG = PREFIX + "outcome"
"""Tag of a run with what it came to, short: the list of runs shows it."""
READING_TAG = PREFIX + "reading"
"""Tag of a run that was to change nothing, `true`: it is not among what happened to its stream."""
BY_TAG = PREFIX + "by"
"""Tag of a run with who has asked for it in a terminal."""
STREAMS = PREFIX + "streams"
"""Metadata of a cluster's sensor: its streams, for who has loaded the code location."""
ALERTS = PREFIX + "alerts"
"""Metadata of a sensor that sends alerts: of which cluster, and where to, for the same."""

STORY = PREFIX + "story"
"""The key of an event's metadata with an operation's report, as JSON."""
BACKTEST = PREFIX + "backtest"
"""The key of an event's metadata with what came of a backtest, as JSON."""
REMEDY = PREFIX + "remedy"
"""The key of a failure's metadata with its text as parts, of which some say what is to be done."""
MINUTES = PREFIX + "minutes"
"""The key of an event's metadata with all minutes since the last event, packed by
`observe.minutes`."""
FLEET = "fleet"
"""The asset that shows all streams of a cluster."""

DEFAULT_CLUSTER_KEY = "spark_cluster"


def scoped(name: str, cluster_key: str) -> str:
    """`name` for the default cluster; with the cluster's key behind it for any other."""
    return name if cluster_key == DEFAULT_CLUSTER_KEY else f"{name}_{cluster_key}"


def autoscaler(cluster_key: str, shard: int = 0) -> str:
    """The name of the sensor that evaluates a shard of a cluster's streams; shards count from 0."""
    return scoped(f"autoscaler_shard_{shard + 1}" if shard else "autoscaler", cluster_key)


def is_autoscaler(sensor: str, cluster_key: str) -> bool:
    """Whether a sensor is the autoscaler of a cluster, or of a shard of it, as shards are counted
    now or were before."""
    found = re.match(r"autoscaler_shard_(\d{1,3})(?=_|$)", sensor)
    shards = (0,) if found is None else (0, int(found[1]) - 1)
    return sensor in [autoscaler(cluster_key, shard) for shard in shards]
