"""HTTP requests and their answers."""
