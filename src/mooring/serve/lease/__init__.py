"""Leader election: the lease, its candidates, and the thread that renews it."""
