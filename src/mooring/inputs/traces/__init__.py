"""Public traces of clusters as workloads: tables of nodes and of pods in CSV, plain or with gzip.

`trace_formats.py` says what a description of a format has, and has the descriptions; `trace_reader.py` reads
the tables of all of them.
"""
