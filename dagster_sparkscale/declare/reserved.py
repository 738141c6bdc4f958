"""Spark settings that a `spark_conf` can't have, as something else makes them. Pure."""

from collections.abc import Iterator, Mapping

from dagster_sparkscale.driver.wire import (
    BACKPRESSURE,
    KEY_GROUPS,
    PLAIN_HASH,
    PLAN,
    RATES,
    RECEIVERS,
    RECEIVERS_GENERATION,
    REMOVAL,
    SOURCE_OPTIONS,
    SOURCES,
)

RIVAL_SWITCHES = ("spark.dynamicAllocation.enabled", "spark.streaming.dynamicAllocation.enabled")
"""Of Spark's own allocation. Either beside ours would fight over the same executors."""
# Settings that a field of the declaration already makes.
_FIELD_FOR_SETTING = {
    "spark.app.name": "name",
    "spark.executor.cores": "executor_cores",
    "spark.executor.memory": "executor_memory",
    "spark.driver.memory": "driver_memory",
    "spark.executor.instances": "executors, or autoscale.initial_executors",
    "spark.master": "the cluster the stream is built with",
    KEY_GROUPS: "state.key_groups",
    PLAIN_HASH: "state.plain_hash",
    PLAN: "the operation reconfigure_state",
    BACKPRESSURE: "backpressure",
    RATES: "the operation set_limits",
    SOURCES: "limits",
    REMOVAL: "receiver_policy.removal",
    RECEIVERS: "receivers, and the operation set_receivers",
    RECEIVERS_GENERATION: "the operation set_receivers",
}


def reserved(spark_conf: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with settings that something else makes, or that would fight with what does."""
    for key, field in _FIELD_FOR_SETTING.items():
        if key in spark_conf:
            yield f"spark_conf: drop {key}; it is set by {field}"
    for key in spark_conf:
        if key.startswith(SOURCE_OPTIONS):
            yield f"spark_conf: drop {key}; it is set by limits"
    if why := rival(spark_conf):
        yield f"spark_conf: {why}"


def rival(spark_conf: Mapping[str, object]) -> str | None:
    """Why settings that switch Spark's own allocation on are refused, in words; None: none does."""
    for key in RIVAL_SWITCHES:
        if str(spark_conf.get(key, "")).strip().lower() == "true":
            return (
                f"drop {key} = true; Spark's own allocation would fight with the executors set "
                "from here (RatioPolicy.from_spark_conf takes its settings over)"
            )
    return None
