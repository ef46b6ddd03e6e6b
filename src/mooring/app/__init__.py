"""The composition root: from a configuration to something that runs."""
