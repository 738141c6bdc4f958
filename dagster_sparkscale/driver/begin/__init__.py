"""What a driver does before the user's program runs."""
