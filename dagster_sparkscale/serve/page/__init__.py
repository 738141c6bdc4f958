"""The live page: the fleet and each stream in a browser, and a stream's report as one file."""
