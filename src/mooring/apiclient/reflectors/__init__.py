"""Lists and watches that keep a copy of what an API server has."""
