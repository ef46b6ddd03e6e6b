"""Questions about changes of a cluster, made one after another in one simulation, and the difference that they make.

`question.py` has the question and changes of nodes, `workload_changes.py` changes of objects, `difference.py` the answer. The
simulation that goes on is `trial/changing_cluster.py`.
"""
