"""A client of any API server: how to reach it, as whom, and what its answers mean."""
