"""Spark settings that a `spark_conf` can't have, as something else makes them. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from dagster_sparkscale.declare.part import Part

RIVAL_SWITCHES = ("spark.dynamicAllocation.enabled", "spark.streaming.dynamicAllocation.enabled")
"""The switches of Spark's own allocation, which would fight with ours over the same executors."""
# Settings that a field of the declaration already makes.
_FIELD_FOR_SETTING = {
    "spark.app.name": "name",
    "spark.executor.cores": "executor_cores",
    "spark.executor.memory": "executor_memory",
    "spark.driver.memory": "driver_memory",
    "spark.executor.instances": "executors, or autoscale.initial_executors",
    "spark.master": "the cluster the stream is built with",
}


def reserved(spark_conf: Mapping[str, str], parts: Iterable[type[Part]]) -> Iterator[str]:
    """What is wrong with settings that something else makes, or that would fight with what does.

    Args:
        parts: all kinds that there are: what one makes is reserved also where it is not declared.
    """
    made = dict(_FIELD_FOR_SETTING)
    for part in parts:
        made.update(part.reserved)
    for setting, field in made.items():
        for key in spark_conf:
            if key == setting or (setting.endswith(".") and key.startswith(setting)):
                yield f"spark_conf: drop {key}; it is set by {field}"
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
