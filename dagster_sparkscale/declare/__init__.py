"""What a user writes: streams, policies, and what policies decide."""
