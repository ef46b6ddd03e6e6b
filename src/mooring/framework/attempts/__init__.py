"""One attempt to place a pod: how plugins are asked, and what they are asked about other pods on nodes."""
