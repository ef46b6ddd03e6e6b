"""Counts of pods by row of the node table, for every selector that somebody asks about."""
