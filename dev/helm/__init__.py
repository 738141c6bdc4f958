"""Helm, for tests of what Dagster's chart makes of our values."""
