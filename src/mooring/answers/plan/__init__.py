"""Which nodes to add at least cost so that everything pending fits, and which nodes can go.

`offers.py` reads what can be bought. `demand.py` groups the pods that need room, `programs.py` states the linear programs,
`trials.py` places pods on nodes that are tried, `search.py` looks for the cheapest nodes, `judge.py` lets the real scheduler
decide, `shrink.py` drains nodes one after another, and `plan.py` asks and answers.
"""
