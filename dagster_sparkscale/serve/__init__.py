"""All streams for who looks from outside of Dagster: one process that changes nothing."""
