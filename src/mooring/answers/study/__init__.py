"""`mooring study`: experiments that a file describes, over clusters, workloads, configurations, seeds and loads.

`study_file.py` reads the file and `study_plan.py` plans the runs; `study_inputs.py` loads what they have in common,
`study_run.py` makes one of them, and `study_metrics.py` has what it is judged by. `study_bound.py` has what no policy can
exceed. `studying.py` is the question and `study_answer.py` the answer.
"""
