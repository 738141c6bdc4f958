"""Sources that Spark has not: each a folder that runs in drivers and executors, without Dagster."""
