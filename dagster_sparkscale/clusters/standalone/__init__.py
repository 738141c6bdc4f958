"""A Spark Standalone cluster: one that exists, or the daemons of one of its own."""
