"""Plugins that look at the pods on nodes: affinity, anti-affinity and spreading."""
