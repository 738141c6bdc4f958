"""Kubernetes: drivers as pods, and what is remembered of streams as objects of the API."""
