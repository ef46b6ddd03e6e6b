"""A recording as a cluster at a moment that moves."""
