"""Nodes that somebody offers, in the forms that people have: NodePools and instance types of Karpenter, node groups of
cluster-autoscaler, lists of prices.

`offer_files.py` recognises the form of each file and puts what they say together; the other modules read one form each.
"""
