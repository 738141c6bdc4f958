"""The capability of streams with real-time queries: the task slots that these need at once."""
