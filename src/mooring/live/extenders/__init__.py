"""Calls of extenders over HTTP."""
