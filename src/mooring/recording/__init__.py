"""Recordings: all that a scheduler was told, and what it decided, in files that can be read again years later."""
