"""Words of messages: numbers with their nouns, short lists, and suggestions for a name that does not exist."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Protocol

LISTED_FAULTS = 5
"""A report lists this many faults one by one."""
COMPARED = 20_000
"""The number of names with which an unknown one is compared: difflib needs about a second for so many."""
COMPARED_LETTERS = 253 + 64
"""How many letters are compared: the longest key of a pod, which is name and namespace with a slash."""


def similar(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Known names that are similar, the most similar first."""
    return get_close_matches(name[:COMPARED_LETTERS], [*islice(known, COMPARED)], n=most)


def did_you_mean(names: Iterable[str]) -> str:
    """The end of a message that suggests these names; empty if there are none."""
    found = [*names]
    return f"; did you mean {' or '.join(found)}?" if found else ""


class WithKey(Protocol):
    """An object with a key: `namespace/name`, or a name alone."""

    @property
    def key(self) -> str: ...


def alike(name: str, items: Sequence[WithKey]) -> str:
    """Suggests similar names among the objects, for the end of a message."""
    return alike_names(name, [item.key for item in items[:COMPARED]])


def alike_names(name: str, keys: Sequence[str]) -> str:
    """Suggests similar names among keys of objects, for the end of a message."""
    by_name = {spelt: key for key in keys[:COMPARED] for spelt in (key.rpartition("/")[2], key)}
    found = dict.fromkeys(by_name[spelt] for spelt in similar(name, by_name, 5))
    return did_you_mean([*found][:3])


def count(number: int, noun: str, form: str = "") -> str:
    """`3 pods`; `1,200 pods` with the form ","."""
    return f"{number:{form}} {noun}" if number == 1 else f"{number:{form}} {noun}s"


def some(names: Sequence[str], limit: int = 3) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
