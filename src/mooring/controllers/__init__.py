"""Controllers of the embedded cluster: they make the objects true that users write. Without I/O, like the scheduler."""
