"""What a driver tells an OpenLineage server of its run."""
