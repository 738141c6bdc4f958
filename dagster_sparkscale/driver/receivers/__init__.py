"""Receivers of DStreams: where they are, and moving them."""
