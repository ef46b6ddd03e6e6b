"""Pod groups in questions: one group is tried, explained and cured as a whole.

`asked_group.py` finds the group, `group_trials.py` lets a real scheduler attempt it while edits are in force,
`group_cures.py` looks for changes that place it, and `explain_group.py` puts the answer together (`group_explanation.py`).
"""
