"""Plugins for pods that are scheduled together (PodGroup)."""
