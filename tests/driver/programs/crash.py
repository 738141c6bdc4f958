"""Raises at once."""

from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate()
raise RuntimeError("the program is broken")
