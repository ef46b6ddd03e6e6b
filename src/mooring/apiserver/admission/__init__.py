"""What happens to an object before it is stored: defaults, checks, changes."""
