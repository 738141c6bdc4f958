"""How far a stream is behind what it reads from Kafka, as Dagster shows it."""
