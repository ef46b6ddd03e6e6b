"""Dumps of clusters: their contents, and how they are made anonymous."""
