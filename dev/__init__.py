"""What sets things up and starts them, for tests, benchmarks and the demo."""
