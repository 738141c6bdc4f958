"""Cluster managers: one contract, one module an implementation."""
