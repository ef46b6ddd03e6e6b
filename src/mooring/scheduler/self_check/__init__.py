"""The self-check: a scheduler that is built now from the known objects, against the one that runs."""
