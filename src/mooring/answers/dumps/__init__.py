"""Dumps of clusters: what they hold (contents.py), their file (dump_file.py), and how they are made anonymous."""
