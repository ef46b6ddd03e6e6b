"""Simulation: manifests in, placements out; and the runs that measure parity and speed."""
