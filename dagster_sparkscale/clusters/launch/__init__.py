"""What a driver is launched with."""
