"""How many examples the property tests try: all with `make test`, fewer with `make check`."""

import os

CHECK = "check"
"""The profile of `make check` (conftest.py)."""
OF_100 = 30
"""How many of each hundred examples it tries: they find what is plainly broken in a third of the time."""


def examples(number: int) -> int:
    """For `settings(max_examples=...)` of a test that wants more or fewer than usual."""
    return max(1, number * OF_100 // 100) if os.environ.get("MOORING_HYPOTHESIS") == CHECK else number
