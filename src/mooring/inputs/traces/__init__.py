"""Public traces of clusters as workloads: tables of nodes and of pods in CSV, plain or with gzip.

`trace_format.py` says what a description of a format has, `trace_formats.py` has the descriptions, and `trace_reader.py`
reads the tables of all of them.
"""
