"""Kubernetes objects as far as a scheduler reads them, and the pure rules on them: quantities, selectors, requests."""
