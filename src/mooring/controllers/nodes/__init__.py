"""Nodes: simulated kubelets with their heartbeats and pods, and the controllers that watch over nodes."""
