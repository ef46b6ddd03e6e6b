"""Health, metrics, configuration and snapshots over HTTP, and who may see them."""
