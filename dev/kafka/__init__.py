"""A real Kafka broker on this machine, for tests and the demo, and Spark's connector for it."""
