"""A program that fails at once, of a topic that a Spark setting names."""

from pyspark.sql import SparkSession

topic = SparkSession.builder.getOrCreate().conf.get("spark.topic", "clicks")
raise RuntimeError(f"no such topic: {topic}")
