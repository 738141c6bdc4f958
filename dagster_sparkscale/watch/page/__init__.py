"""What Dagster's page of a stream shows."""
