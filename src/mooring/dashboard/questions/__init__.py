"""Answers that take longer than a look at the scheduler: they come from a process of their own."""
