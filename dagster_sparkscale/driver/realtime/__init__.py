"""What the driver does for queries in real-time mode, whose tasks run all at once."""
