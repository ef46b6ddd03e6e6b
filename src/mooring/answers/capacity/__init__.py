"""How many more pods fit: cluster-capacity's question.

`pod_copies.py` reads what is to be counted, `one_by_one.py` places copies by the core's own decisions, `closed_form.py` works
the same numbers out at once where nodes do not depend on each other, and `capacity.py` asks and answers.
"""
