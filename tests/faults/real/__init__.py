"""Faults of real processes, connections and disks, each played once on a real stream."""
