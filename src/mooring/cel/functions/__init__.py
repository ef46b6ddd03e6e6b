"""The functions that expressions can call."""
