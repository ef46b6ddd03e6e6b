"""Mooring: a Kubernetes scheduler in Python that decides as kube-scheduler does, and can explain and simulate it."""
