"""What batches of DStreams and of queries tell."""
