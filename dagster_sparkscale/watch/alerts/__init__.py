"""What is told to people of a stream that is not well."""
