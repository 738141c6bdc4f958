"""What a Kafka source tells."""
