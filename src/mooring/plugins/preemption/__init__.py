"""DefaultPreemption, and the search for victims."""
