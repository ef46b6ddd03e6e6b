"""Controllers of volumes and of claims."""
