"""Sensors that this deployment has of its own, beside those the library brings."""
