"""What any program could use: seeded choice and field problems. Knows nothing of Kubernetes."""
