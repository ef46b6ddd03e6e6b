"""What the control plane does to objects: pure functions that the API server, the controllers and simulations call."""
