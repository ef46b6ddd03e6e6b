"""Profiles: which plugins are registered, and which of them run at which point."""
