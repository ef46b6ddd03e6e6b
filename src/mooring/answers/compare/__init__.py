"""`mooring compare`: the same cluster and the same arrivals under several configurations, seeds and loads.

`comparing.py` is the question and has the form of the results file, `comparison.py` is the answer.
`answers/experiments` makes the runs.
"""
