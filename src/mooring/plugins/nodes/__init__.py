"""Plugins that look at the node alone."""
