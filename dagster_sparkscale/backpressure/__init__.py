"""Limits of sources: what is set by hand, and what is retuned from what was seen."""
