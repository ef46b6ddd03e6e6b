"""The embedded API server: what it answers is decided without I/O; only `transport` speaks HTTP."""
