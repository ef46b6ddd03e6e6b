"""Plugins that compare the resource requests of pods with what nodes have."""
