"""Recordings run again: the same steps on a scheduler of our own, as fast as it goes."""
