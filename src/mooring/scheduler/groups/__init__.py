"""Pod groups: attempts for all members of a gang at once."""
