"""A proxy of TCP connections that damages what goes through it, for tests of faults: Toxiproxy."""
