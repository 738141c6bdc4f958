"""Lets Spark find `format("kinesis-direct")` by itself.

Spark looks for Python Data Sources in top-level modules whose names begin with `pyspark_`, and
takes what they call DefaultSource. Nothing else belongs here.
"""

from dagster_sparkscale.sources.kinesis.source import KinesisDirectSource as DefaultSource

__all__ = ["DefaultSource"]
