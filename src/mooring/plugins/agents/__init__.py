"""Policies outside of Mooring as plugins: trained agents, and what they see of the cluster."""
