"""Live limits of sources: what a stream can take, estimated after each batch, and given to them."""
