"""Extenders, as far as the scheduler without I/O is concerned: what is asked and what answers mean."""
