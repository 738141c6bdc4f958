"""Kinesis for DStreams: batches as RDDs, and positions that are committed."""
