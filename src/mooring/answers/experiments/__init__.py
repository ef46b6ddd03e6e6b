"""The engine of experiments: runs of simulations that differ in configuration, seed, load, cluster or workload.

`mooring compare` and `mooring study` plan their runs and show the results; this room makes the runs. `compared_run.py` is one
run over time and `run_plan.py` what a run differs in; `figures.py` has what it is judged by. `workers.py` makes the runs that
are not done yet and spreads them over processes or Dask; `results_file.py` keeps them.
"""
