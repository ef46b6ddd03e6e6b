"""What becomes of objects that are no longer wanted."""
