"""Suggestions for a name that does not exist: the most similar ones that do."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

COMPARED = 20_000
"""With how many names an unknown one is compared: difflib needs about a second for so many."""
COMPARED_LETTERS = 253 + 64
"""How many letters are compared: the longest key of a pod, which is name and namespace with a slash."""


def similar(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Known names that are similar, the most similar first."""
    return get_close_matches(name[:COMPARED_LETTERS], [*islice(known, COMPARED)], n=most)


def did_you_mean(names: Iterable[str]) -> str:
    """The end of a message that suggests these names; empty if there are none."""
    found = [*names]
    return f"; did you mean {' or '.join(found)}?" if found else ""
