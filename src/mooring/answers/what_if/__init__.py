"""What if: changes of a cluster, made one after another in one simulation, and the difference that they make.

`question.py` has the question. `changing_cluster.py` is the simulation that goes on; `draining.py`, `node_changes.py` and
`workload_changes.py` are what can be done to it, and `difference.py` is the answer.
"""
