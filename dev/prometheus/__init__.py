"""A real Prometheus on this machine, and promtool, for tests of what it scrapes and of alerts."""
