"""What the scheduler shows over HTTPS: health, metrics, its configuration and state, to those who may see it."""
