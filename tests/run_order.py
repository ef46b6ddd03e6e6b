"""The order in which workers of pytest-xdist run tests: files with slow tests come first, an equal part for each worker.

In the order of their names, files with tests of many seconds come last, and one worker is busy with them while the others
have nothing left to steal.
"""

from collections.abc import Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar


class Collected(Protocol):
    """The part of a `pytest.Item` that decides about its place."""

    @property
    def path(self) -> Path: ...

    def get_closest_marker(self, name: str) -> Any: ...


Test = TypeVar("Test", bound=Collected)


def in_order(items: Sequence[Test], workers: int) -> list[Test]:
    """All items, in parts as `--dist worksteal` gives them to workers. A part starts with its share of the files that have
    a slow test, and ends with its share of the others, which an idle worker steals from the end. The tests of a file keep
    their order and stay together, so that they share fixtures; only the borders between workers cut through files."""
    slow: list[list[Test]] = []
    others: list[Test] = []
    for _, group in groupby(items, key=lambda item: item.path):
        file = list(group)
        if any(test.get_closest_marker("slow") for test in file):
            slow.append(file)
        else:
            others += file
    ordered: list[Test] = []
    for worker in range(workers):
        end = len(ordered) + (len(items) - len(ordered)) // (workers - worker)
        ordered += chain.from_iterable(slow[worker::workers])
        more = max(0, end - len(ordered))
        ordered += others[:more]
        del others[:more]
    return ordered
