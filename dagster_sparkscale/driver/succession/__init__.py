"""Queries that the driver ends and starts again, so that their program notices nothing of it."""
