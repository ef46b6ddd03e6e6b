"""The service around a live scheduler: pages, metrics, the lease and its election, tracing."""
