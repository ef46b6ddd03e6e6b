"""What is wrong with an object, or suspicious about it."""
