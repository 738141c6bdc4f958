"""How a driver's agent is reached."""
