"""`mooring simulate`: what becomes of the pods of a cluster, all at once or over time.

`simulating.py` runs the simulations; `simulation_answer.py` and `day_answer.py` are the answers.
"""
