"""The scheduling queue (queue.py): which pod is tried next, and when a pod that was rejected is tried again."""
