"""DefaultPreemption: which pods have to leave so that a pod of higher priority fits."""
