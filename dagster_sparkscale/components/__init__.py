"""Components: streams declared in YAML. Dagster's `dg` finds here what there is.

Loaded by each process that loads a folder of definitions, in every project that has this package:
it imports nothing but Dagster.
"""

from dagster_sparkscale.components.spark_streams import SparkStreams

__all__ = ["SparkStreams"]
