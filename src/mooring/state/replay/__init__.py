"""Recorded runs, made again step by step."""
