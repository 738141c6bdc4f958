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
OUTCOME_TAG = PREFIX + "outcome"
"""Tag of a run with what it came to, short: the list of runs shows it."""
BY_TAG = PREFIX + "by"
"""Tag of a run with who has asked for it in a terminal."""
STREAMS = PREFIX + "streams"
"""Metadata of a cluster's sensor: its streams, for who has loaded the code location."""

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
