"""How the dashboard is served: paths, the stream, tokens, static files, headers."""
