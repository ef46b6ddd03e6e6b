"""Questions about changes of a cluster, made one after another in one simulation, and the difference that they make.

`question.py` has the question and `difference.py` the answer; `node_changes.py` and `workload_changes.py` are what can be
changed. The simulation that goes on is `trial/changing_cluster.py`.
"""
