"""The self-check: compares a scheduler with one that is built anew from the same objects, and mends what differs."""
