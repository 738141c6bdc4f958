"""Real database servers on this machine, of packages, as Dagster's storage in tests."""
