"""What is known of a stream: what its agent said, and what that means."""
