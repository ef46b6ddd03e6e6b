"""What would place a pod: changes to the pod, to nodes, to other pods, each tried by a decision before it is named.

`search.py` looks for all of them. `relaxation.py` has the form of changes to the pod itself; the other modules have one kind
of change each.
"""
