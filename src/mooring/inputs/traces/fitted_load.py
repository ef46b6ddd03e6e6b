"""A new load like a given one: its distribution is the empirical one of the pods that are given.

What a pod asks for and how long it runs are drawn together, so that large pods run as long as large pods did. Distances
between arrivals are drawn from those of the given pods, so bursts stay bursts; a rate that rises and falls over the day does
not. Each seed gives another load.
"""

import numpy as np

from mooring.inputs.traces.trace_reader import TracePods


def fitted_load(given: TracePods, count: int, seed: int) -> TracePods:
    """So many pods, drawn from those that are given; their names are numbered."""
    if not len(given):
        return given
    # Uniform numbers alone: NumPy gives the same for a seed in all releases.
    uniform = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, count]))).random
    rows = (uniform(count) * len(given)).astype(np.int64)
    gaps_ns = np.diff(np.array(given.at_ns, np.int64))
    steps_ns = gaps_ns[(uniform(count - 1) * len(gaps_ns)).astype(np.int64)] if len(gaps_ns) else np.zeros(count - 1)
    at_ns = np.concatenate([[0], np.cumsum(steps_ns)]).astype(np.int64)
    return TracePods(
        given.templates,
        [f"fitted-{number}" for number in range(count)],
        [given.which[row] for row in rows.tolist()],
        at_ns.tolist(),
        [given.run_ns[row] for row in rows.tolist()],
    )
