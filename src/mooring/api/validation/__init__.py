"""Validation: what an API server rejects in an object, and warnings about what is probably a mistake."""
