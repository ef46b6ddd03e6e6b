"""What `kubectl get` prints: columns, cells and ages."""
