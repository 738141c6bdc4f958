"""What is remembered of each stream, and who may change it."""
