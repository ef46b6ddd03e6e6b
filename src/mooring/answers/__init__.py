"""Answers to questions about a cluster: why a pod is where it is, what would place it, what if, how many, which nodes to buy.

`loaded_cluster.py` is what every question is asked about, and `answer.py` the form of every answer. Each question is a
function of a module of its own; the command line and `mooring.load` (notebook.py) call the same functions.
"""
