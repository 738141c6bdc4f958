"""Policies and what they decide on, and the rescale that follows."""
