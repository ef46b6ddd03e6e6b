"""The Kubernetes API, from both sides: what a client asks for, and what an API server answers."""
