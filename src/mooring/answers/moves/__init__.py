"""Moves of pods: which nodes can be emptied, in which order, tried by the core before anything is said."""
