"""Experiments: runs of simulations that differ in configuration, seed, load, cluster or workload.

`comparing.py` is the question of `mooring compare` and has the form of the results file, `comparison.py` is the answer;
`mooring study` has a room of its own. The rest of this room makes the runs for both. `compared_run.py` is one run over
time and `run_plan.py` what a run differs in; `figures.py` has what it is judged by. `workers.py` makes the runs that
are not done yet and spreads them over processes or Dask; `results_file.py` keeps them.
"""
