"""Reflectors: lists and watches that keep a copy of the objects of an API server."""
