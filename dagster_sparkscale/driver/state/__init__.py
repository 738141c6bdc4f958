"""Changes the partitions of a query's state, before its driver starts it."""
