"""Code that any program could use: time, heaps, seeded choice, logs, metrics, connections. It does not know Kubernetes."""
