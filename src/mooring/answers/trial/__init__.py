"""Counterfactual decisions: edits, changing clusters, groups of pods, and why nodes reject a pod."""
