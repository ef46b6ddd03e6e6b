"""What the pages show, read from a scheduler on its own thread."""
