"""What tasks take: of each executor, of the longest stages, and of the time of batches."""
