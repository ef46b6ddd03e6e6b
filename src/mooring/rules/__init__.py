"""The rules by which the control plane changes objects: pure functions that the API server, the controllers and simulations
call."""
