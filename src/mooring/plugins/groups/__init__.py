"""Plugins of pod groups."""
