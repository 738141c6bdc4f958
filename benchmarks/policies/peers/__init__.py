"""Autoscalers of other systems, each by its published rule, on what an agent reports."""
