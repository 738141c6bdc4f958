"""What is in force of a stream beside its declaration: limits, and the number of receivers."""
