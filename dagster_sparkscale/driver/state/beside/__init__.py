"""Changes the partitions of a query's state on a copy of its checkpoint, while the query runs."""
