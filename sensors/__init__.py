"""The sensors of this deployment, beside those that `build_defs` makes for every stream."""
