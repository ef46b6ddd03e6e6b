"""The composition roots: each function here builds a whole program out of the packages below and runs it."""
