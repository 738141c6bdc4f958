"""The capacity policy: what it learns of a stream by its minutes, and how it sizes by that."""
