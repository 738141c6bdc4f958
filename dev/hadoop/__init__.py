"""Hadoop's own daemons on this machine, for tests: what YARN and HDFS have in common."""
