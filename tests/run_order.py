"""The order in which workers (forked_workers.py) get files: slow ones from one end, costly ones from the other.

Slow tests wait most of the time, for processes and servers; costly ones (costly_tests.txt) need a core. Files with neither
come last, so that all workers end at about the same time.
"""

from collections.abc import Collection, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol


class Collected(Protocol):
    """The part of a `pytest.Item` that decides about its place."""

    @property
    def path(self) -> Path: ...

    @property
    def nodeid(self) -> str: ...

    def get_closest_marker(self, name: str) -> Any: ...


def parts_of(items: Sequence[Collected], costly: Collection[str]) -> list[list[int]]:
    """The tests of each file, as places in `items`, in their order: they share fixtures. First those with most slow tests,
    then those that take little, last those with most costly tests."""
    parts = [list(part) for _, part in groupby(range(len(items)), key=lambda place: items[place].path)]

    def weight(part: list[int]) -> int:
        slow = sum(items[place].get_closest_marker("slow") is not None for place in part)
        return -slow or sum(items[place].nodeid.partition("[")[0] in costly for place in part)

    return sorted(parts, key=weight)
