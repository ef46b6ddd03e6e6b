"""Admission of an object before it is stored: defaults, checks, changes."""
