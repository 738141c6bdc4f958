"""Advice: what another policy would have made of a stream, by its own history."""
