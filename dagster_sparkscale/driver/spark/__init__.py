"""Spark itself, as the agent reaches it."""
