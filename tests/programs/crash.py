"""A program that fails at once."""

raise RuntimeError("no such topic: clicks")
