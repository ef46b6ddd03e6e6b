"""Plugins that look at resource requests."""
