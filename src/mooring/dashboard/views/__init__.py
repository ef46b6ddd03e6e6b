"""Data of the pages, read from a scheduler on its own thread."""
