"""What an API server has, mirrored here: lists and watches turned into typed changes."""
