"""Plugins that look at volumes."""
