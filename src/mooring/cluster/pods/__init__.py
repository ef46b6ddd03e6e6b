"""The pods on nodes: the cache, counts by selector, and those that are assumed or nominated."""
