"""The controllers of the embedded cluster: workloads, nodes with simulated kubelets, storage, and the life cycle of
objects."""
