"""Measurements: every figure is a ratio between two things done in one run on one machine."""
