"""`mooring compare`: the same cluster and the same arrivals under several configurations, seeds and loads.

`comparing.py` is the question and `comparison.py` the answer. A run (run.py) is one simulation; workers.py spreads runs over
processes or a Dask cluster, and results_file.py keeps what is done.
"""
