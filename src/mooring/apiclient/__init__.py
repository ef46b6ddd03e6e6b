"""Reaching an API server: connections, credentials, kubeconfig files and reflectors."""
