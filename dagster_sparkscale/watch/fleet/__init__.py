"""All streams in one table."""
