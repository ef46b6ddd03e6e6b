"""Nodes, their simulated kubelets, and the pods that run on them."""
