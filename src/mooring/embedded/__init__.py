"""The embedded cluster: the scheduler and the API server in one process."""
