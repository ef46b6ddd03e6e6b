"""Many selectors at once: which of them may match given labels, without trying each."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from mooring.model.selectors import Selector

T = TypeVar("T", bound=Hashable)


class SelectorIndex(Generic[T]):
    """Items by labels that their selectors require.

    A pod has few labels, so of ten thousand selectors that each require a label of their own it meets few. Items with a
    selector that requires no particular label have to be tried on every pod.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[T, None]] = {}
        self._others: dict[T, None] = {}
        self._labels_of: dict[T, set[tuple[str, str]]] = {}

    def add(self, item: T, selectors: Iterable[Selector]) -> None:
        """An item that may be meant by labels that any of its selectors matches."""
        labels: set[tuple[str, str]] = set()
        for selector in selectors:
            required = required_labels(selector)
            if required is None:
                self._others[item] = None
                return
            labels.update(required)
        self._labels_of[item] = labels
        for label in labels:
            self._by_label.setdefault(label, {})[item] = None

    def remove(self, item: T) -> None:
        """Nothing happens where the item is not there."""
        self._others.pop(item, None)
        for label in self._labels_of.pop(item, ()):
            items = self._by_label[label]
            del items[item]
            if not items:
                del self._by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> list[T]:
        """The items that may be meant, each once; no other is."""
        found = dict(self._others)
        for label in labels.items():
            items = self._by_label.get(label)
            if items:
                found.update(items)
        return list(found)


def required_labels(selector: Selector) -> list[tuple[str, str]] | None:
    """Labels of which the selector requires one: those of the requirement that names the fewest values.

    None: the selector requires no particular label.
    """
    if selector.is_nothing:
        return []
    named = [rule for rule in selector.rules if rule.operator == "In"]
    rule = min(named, key=lambda rule: len(rule.values), default=None)
    return None if rule is None else [(rule.key, value) for value in rule.values]
