"""What happens to a pod: the decision (decide.py), and later the loop around it."""
