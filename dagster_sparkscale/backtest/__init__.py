"""What a policy would have done: a simulator of streams, and how far it can be believed."""
