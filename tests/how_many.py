"""How much of their work long tests do: all of it with `make soak`, a tenth with `make test` and `make check`.

Property tests try fewer examples, tests over a list of cases take every n-th of them, and days of chaos are shorter.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

SHARES = {"soak": 100, "explore": 100, "ci": 10, "mutants": 10, "check": 10}
"""Percent of the full work by profile (conftest.py). A tenth finds what a change breaks plainly; `make soak` finds what
only rare cases show."""
PROFILE = os.environ.get("MOORING_TESTS", "ci")
SHARE = SHARES[PROFILE]
IS_SOAK = SHARE == 100


def examples(number: int) -> int:
    """The part of `number` examples, rounds or seconds that the profile asks for: one at least."""
    return max(1, number * SHARE // 100)


def costly_examples(number: int) -> int:
    """A third of `examples(number)`: for tests that would take a hundredth of the CPU time of the whole run by themselves."""
    return examples(number) if IS_SOAK else max(1, examples(number) // 3)


def some_of(cases: "Sequence[Case]", fewest: int = 1) -> "Sequence[Case]":
    """The part of the cases that the profile asks for, spread evenly over all of them."""
    count = max(fewest, len(cases) * SHARE // 100)
    return cases if count >= len(cases) else [cases[each * len(cases) // count] for each in range(count)]
