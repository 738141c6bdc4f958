"""Tells the ends of drivers that could not tell them themselves, to their OpenLineage servers."""
