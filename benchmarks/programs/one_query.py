"""A driver that runs one small query and ends."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.range(1000).selectExpr("sum(id)").collect())
spark.stop()
