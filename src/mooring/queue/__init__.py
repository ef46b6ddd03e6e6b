"""The scheduling queue: pods that wait for a node, and the events that move them. It knows extension points, and no
plugin by name."""
