"""Drivers as processes of this host: their folders, leases, processes and supervisors."""
