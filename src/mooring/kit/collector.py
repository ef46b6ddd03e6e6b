"""Python's garbage collector, for processes that keep millions of small objects and hardly make cycles."""

import gc

_YOUNG, _MIDDLE, _OLD = 100_000, 20, 100


def relax_collector() -> None:
    """Leave what is there now alone for good, and look at the rest much less often: it is freed by counting anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
