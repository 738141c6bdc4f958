"""How a driver ends, and what it leaves when it has."""
