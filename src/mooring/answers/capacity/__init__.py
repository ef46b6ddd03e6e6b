"""How many more pods fit: cluster-capacity's question.

`filling.py` reads what is to be counted and places copies, by the core's own decisions or all at once where nodes do not
depend on each other. `gangs.py` counts whole gangs, `node_budgets.py` says what is left, and `capacity.py` asks and answers.
"""
