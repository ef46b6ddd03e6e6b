"""Health, metrics and debug pages, and who may read them."""
