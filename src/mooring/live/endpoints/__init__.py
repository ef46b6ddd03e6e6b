"""Health, metrics and debug pages, the HTTPS server that serves them, and who may read them."""
