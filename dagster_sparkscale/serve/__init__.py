"""All streams for who looks from outside of Dagster: one process, which reads and changes nothing."""
