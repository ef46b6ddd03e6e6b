"""`mooring compare`: the same cluster and the same arrivals under several configurations, seeds and loads.

`comparing.py` is the question, `comparison.py` the answer, and `compared_rows.py` the form of the results file.
`answers/experiments` makes the runs.
"""
