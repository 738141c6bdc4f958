"""How many executors there are, and which may go."""
