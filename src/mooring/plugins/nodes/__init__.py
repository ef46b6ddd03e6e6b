"""Plugins that look at one node at a time: its name, labels, taints, ports, images and features."""
