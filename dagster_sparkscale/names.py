"""Names that appear in Dagster: metadata keys, tags, jobs. Users build plots and alerts on them.

Pure.
"""

PREFIX = "dagster-sparkscale/"

STREAM_TAG = PREFIX + "stream"
CLUSTER_TAG = PREFIX + "cluster"
OPERATION_TAG = PREFIX + "operation"
EPOCH_TAG = PREFIX + "epoch"
EXPIRES_TAG = PREFIX + "expires"
"""Tag of a run that changes nothing when it starts too late."""
STREAMS = PREFIX + "streams"
"""Metadata of a cluster's sensor: its streams, for who has loaded the code location."""

STORY = PREFIX + "story"
"""Of an event: what an operation came to, as JSON."""
MINUTES = PREFIX + "minutes"
"""Of an event: each minute since the event before, as `observe.minutes` packs them."""
FLEET = "fleet"
"""The asset that shows all streams of a cluster."""

DEFAULT_CLUSTER_KEY = "spark_cluster"


def scoped(name: str, cluster_key: str) -> str:
    """`name` for the default cluster; with the cluster's key behind it for any other."""
    return name if cluster_key == DEFAULT_CLUSTER_KEY else f"{name}_{cluster_key}"
