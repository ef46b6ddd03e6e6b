"""The scheduler without I/O: what comes in, attempts, binding cycles, and what goes out."""
